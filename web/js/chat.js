// The chat: one conversation, one answer at a time. Owns what is shown and the order of things; a message's nodes are
// message_view's, the stream is answer_run's, the kept chats are chat_store's.
import { modelName } from "./about.js";
import { AnswerRun } from "./answer_run.js";
import { ChatList } from "./chat_list.js";
import { ChatStore, freshId } from "./chat_store.js";
import { fillModel, waitingModel } from "./chat_words.js";
import { cutBefore, freshConversation, requestMessages, titleOf } from "./conversation.js";
import { byId, setText } from "./dom.js";
import { MessageView } from "./message_view.js";
import { lookNow, onMetrics } from "./monitor.js";

/** @typedef {import("./types").Conversation} Conversation */
/** @typedef {import("./types").Message} Message */
/** @typedef {import("./types").Metrics} Metrics */

const SHOWN_MAX = 60; // messages; older ones are behind a button
const BOTTOM_PX = 60; // so near to the end counts as at the end
const DRAFT = "strata-draft";
const OPEN = "strata-chat"; // the chat of this tab, for a reload

const store = new ChatStore();
const list = new ChatList(store, { open: openChat, removed: onRemoved });
const chat = {
  conversation: freshConversation(freshId(), Date.now()),
  views: /** @type {MessageView[]} */ ([]),
  running: /** @type {AnswerRun|null} */ (null),
  metrics: /** @type {Metrics|null} */ (null),
  saving: Promise.resolve(),
  removed: /** @type {Set<string>} */ (new Set()), // ids that an answer on its way must not bring back
};

function atEnd() {
  const page = document.documentElement;
  return window.innerHeight + window.scrollY >= page.scrollHeight - BOTTOM_PX;
}

function toEnd() {
  window.scrollTo(0, document.documentElement.scrollHeight);
  byId("to-end").hidden = true;
}

/** Does something to the page and stays at the end if the reader was there. @param {() => void} change */
function keepingEnd(change) {
  const was = atEnd();
  change();
  if (was) toEnd();
  else byId("to-end").hidden = chat.running === null;
}

const acts = { edited: onEdited, again: onAgain };

/** @param {Message} message */
function addView(message) {
  const view = new MessageView(message, acts);
  chat.views.push(view);
  byId("messages").append(view.node);
  byId("empty").hidden = true;
  return view;
}

/** Puts the messages on the page; an answer that is being written keeps its nodes. @param {number} [shown] */
function showConversation(shown = SHOWN_MAX) {
  const { messages } = chat.conversation;
  const hidden = Math.max(0, messages.length - shown);
  const writing = chat.running ? chat.views[chat.views.length - 1] : null;
  chat.views = messages.map((message) => (message === writing?.message ? writing : new MessageView(message, acts)));
  const visible = chat.views.slice(hidden);
  for (const view of visible) if (view !== writing) view.update(false);
  byId("messages").replaceChildren(...visible.map((view) => view.node));
  byId("earlier").hidden = hidden === 0;
  byId("empty").hidden = messages.length > 0;
  showContext();
}

function showContext() {
  const model = fillModel(chat.conversation.messages, chat.metrics?.engine?.context);
  byId("chat-context").hidden = model === null;
  if (!model) return;
  setText("chat-context-words", model.words);
  byId("chat-context-fill").style.width = `${Math.round(model.share * 100)}%`;
}

/** @param {AnswerRun|null} run */
function setRunning(run) {
  chat.running = run;
  byId("stop").hidden = run === null;
  byId("send").hidden = run !== null;
  byId("messages").setAttribute("aria-busy", String(run !== null));
  if (run === null) byId("to-end").hidden = true;
}

/** Keeps a conversation, one save after the other. @param {Conversation} conversation */
function save(conversation) {
  chat.saving = chat.saving.then(async () => {
    if (chat.removed.has(conversation.id)) return;
    try {
      conversation.title = titleOf(conversation.messages);
      const saved = await store.save({ ...conversation, updated: Date.now() });
      conversation.id = saved.id;
      conversation.revision = saved.revision;
      if (conversation === chat.conversation) sessionStorage.setItem(OPEN, saved.id);
    } catch {
      // No storage: the conversation lives as long as the tab; the list says so.
    }
    await list.refresh(chat.conversation.id);
  });
}

function requestNow() {
  const request = { model: modelName(), messages: requestMessages(chat.conversation.messages) };
  const effort = byId("effort").value;
  if (effort) Object.assign(request, { reasoning_effort: effort });
  const temperature = byId("temperature").value;
  if (temperature) Object.assign(request, { temperature: Number(temperature) });
  return request;
}

/** Asks for the answer to the last message. */
async function answer() {
  const request = requestNow();
  /** @type {Message} */
  const message = { role: "assistant", content: "", unfinished: true };
  const { conversation } = chat;
  conversation.messages.push(message);
  const view = addView(message);
  const run = new AnswerRun(request, message, painter(() => {
    if (run.ended) return; // painted below, once: a second time would take the focus from its buttons
    keepingEnd(() => {
      view.update(true);
      showWaiting();
    });
  }));
  setRunning(run);
  showWaiting();
  toEnd();
  lookNow();
  await run.go();
  keepingEnd(() => {
    if (chat.running === run) setRunning(null);
    view.update(false);
  });
  if (conversation === chat.conversation) showContext();
  save(conversation);
  lookNow();
}

/**
 * At most one painting at a time, and the rarer the longer one takes: a long answer does not freeze the page.
 * @param {() => void} paint
 */
function painter(paint) {
  let waiting = false;
  let cost = 0;
  return () => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => {
      waiting = false;
      const began = performance.now();
      paint();
      cost = performance.now() - began;
    }, Math.min(500, Math.max(16, cost * 4)));
  };
}

function showWaiting() {
  const { running } = chat;
  const view = chat.views[chat.views.length - 1];
  if (!running || running.first !== null || !view) return;
  view.showWaiting(waitingModel(running.progress, chat.metrics?.live ?? null));
}

/** @param {string} question */
function ask(question) {
  const message = /** @type {Message} */ ({ role: "user", content: question });
  chat.conversation.messages.push(message);
  addView(message).update(false);
  save(chat.conversation);
  answer();
}

/** Takes away a message and what came after it. @param {MessageView} view @returns {boolean} false: an answer runs */
function cutAt(view) {
  if (chat.running) return false;
  const at = chat.views.indexOf(view);
  if (at < 0) return false;
  chat.conversation.messages = cutBefore(chat.conversation.messages, at);
  for (const each of chat.views.splice(at)) each.node.remove();
  return true;
}

/** @param {MessageView} view @param {string} text */
function onEdited(view, text) {
  if (!cutAt(view)) return;
  ask(text);
  byId("question").focus();
}

/** @param {MessageView} view of an answer */
function onAgain(view) {
  if (!cutAt(view)) return;
  answer();
  byId("question").focus();
}

/** @param {Conversation} conversation */
function show(conversation) {
  chat.running?.stop();
  setRunning(null);
  chat.conversation = conversation;
  sessionStorage.setItem(OPEN, conversation.id);
  showConversation();
  list.refresh(conversation.id);
}

function newChat() {
  show(freshConversation(freshId(), Date.now()));
  byId("question").focus();
}

/** @param {string} id */
async function openChat(id) {
  const found = await store.get(id);
  if (!found) return;
  show(found);
  toEnd();
  byId("question").focus();
}

/** @param {string} id "" = all */
function onRemoved(id) {
  chat.removed.add(id || chat.conversation.id);
  if (id === "" || id === chat.conversation.id) show(freshConversation(freshId(), Date.now()));
}

/** Another tab changed a chat. @param {string} id */
async function onOtherTab(id) {
  await list.refresh();
  const { conversation } = chat;
  if ((id !== "" && id !== conversation.id) || conversation.revision === 0) return;
  const found = await store.get(conversation.id);
  if (chat.running || conversation !== chat.conversation) return; // since then somebody asked here, or went elsewhere
  if (found && found.revision > conversation.revision) show(found);
}

function submit() {
  const field = byId("question");
  const question = field.value.trim();
  if (!question || chat.running) return;
  field.value = "";
  keepDraft();
  ask(question);
}

function keepDraft() {
  try {
    localStorage.setItem(DRAFT, byId("question").value);
  } catch {
    // Not kept: the browser forbids storage.
  }
}

function watchFields() {
  byId("compose").addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    submit();
  });
  byId("question").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      submit();
    }
  });
  byId("question").addEventListener("input", keepDraft);
  byId("chat").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") chat.running?.stop();
  });
  byId("stop").addEventListener("click", () => {
    chat.running?.stop();
    byId("question").focus();
  });
  byId("clear").addEventListener("click", newChat);
  byId("earlier").addEventListener("click", () => showConversation(Infinity));
  byId("to-end").addEventListener("click", toEnd);
  window.addEventListener("scroll", () => {
    if (atEnd()) byId("to-end").hidden = true;
  }, { passive: true });
}

export async function startChat() {
  watchFields();
  store.onChange = onOtherTab;
  onMetrics((metrics) => {
    chat.metrics = metrics;
    showContext();
    showWaiting();
  });
  try {
    byId("question").value = localStorage.getItem(DRAFT) ?? "";
    const open = sessionStorage.getItem(OPEN);
    const found = open ? await store.get(open) : undefined;
    if (found && chat.conversation.messages.length === 0) show(found);
  } catch {
    // No storage: a fresh chat.
  }
  await list.refresh(chat.conversation.id);
}
