// The chat: messages of this tab, one answer at a time, streamed, stoppable, thinking folded.
import { chat } from "./api.js";
import { byId, element } from "./dom.js";
import { number, tokensPerSecond } from "./view_models.js";

/** @type {{role: string, content: string, reasoning_content?: string}[]} */
let messages = [];
/** @type {AbortController|null} */
let running = null;

function atBottom() {
  return window.innerHeight + window.scrollY >= document.body.scrollHeight - 40;
}

function keepBottom(was) {
  if (was) window.scrollTo(0, document.body.scrollHeight);
}

function addMessage(role) {
  const text = element("p", { class: "text" });
  const item = element("li", { class: role }, element("span", { class: "hidden" }, role === "user" ? "You:" : "Strata:"), text);
  byId("messages").append(item);
  byId("empty").hidden = true;
  return { item, text };
}

/** The fold above an answer that holds its thinking; made with the first piece. */
function thinkingPlace(view) {
  if (!view.thinking) {
    view.thinking = element("p");
    const fold = element("details", {}, element("summary", {}, "Thinking"), view.thinking);
    view.item.insertBefore(fold, view.text);
  }
  return view.thinking;
}

function showFacts(view, last) {
  const usage = last.usage;
  if (!usage) return;
  const reused = usage.prompt_tokens_details?.cached_tokens ?? 0;
  const speed = tokensPerSecond(last.timings?.predicted_n, last.timings?.predicted_ms);
  const words = [`${number(usage.completion_tokens)} tokens`, speed, `reused ${number(reused)} of ${number(usage.prompt_tokens)} tokens`];
  view.item.append(element("p", { class: "facts" }, words.join(" · ")));
}

function setRunning(controller) {
  running = controller;
  byId("stop").hidden = controller === null;
  byId("send").disabled = controller !== null;
}

/** @param {any} view @param {any} answer @param {any} chunk */
function take(view, answer, chunk) {
  const delta = chunk.choices?.[0]?.delta ?? {};
  const was = atBottom();
  if (delta.reasoning_content) {
    answer.reasoning_content = (answer.reasoning_content ?? "") + delta.reasoning_content;
    thinkingPlace(view).append(delta.reasoning_content);
  }
  if (delta.content) {
    answer.content += delta.content;
    view.text.append(delta.content);
  }
  keepBottom(was);
}

async function ask(question) {
  messages.push({ role: "user", content: question });
  addMessage("user").text.append(question);
  const view = addMessage("assistant");
  const answer = { role: "assistant", content: "" };
  const controller = new AbortController();
  setRunning(controller);
  const effort = byId("effort").value;
  const request = { model: byId("model").textContent || "default", messages };
  if (effort) Object.assign(request, { reasoning_effort: effort });
  let last = {};
  try {
    for await (const chunk of chat(request, controller.signal)) {
      take(view, answer, chunk);
      last = { usage: chunk.usage ?? last.usage, timings: chunk.timings ?? last.timings };
    }
    showFacts(view, last);
  } catch (error) {
    const stopped = controller.signal.aborted;
    view.item.append(element("p", { class: stopped ? "facts" : "error" }, stopped ? "stopped" : String(error.message)));
  } finally {
    messages.push(answer);
    setRunning(null);
    byId("question").focus();
  }
}

function submit() {
  const question = byId("question").value.trim();
  if (!question || running) return;
  byId("question").value = "";
  ask(question);
}

export function startChat() {
  byId("compose").addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  byId("question").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      submit();
    }
    if (event.key === "Escape") running?.abort();
  });
  byId("stop").addEventListener("click", () => running?.abort());
  byId("clear").addEventListener("click", () => {
    running?.abort();
    messages = [];
    byId("messages").replaceChildren();
    byId("empty").hidden = false;
    byId("question").focus();
  });
}
