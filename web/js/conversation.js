// A conversation as a value: what is sent of it, how it is cut, what a file may bring in. Pure.

/** @typedef {import("./types").Conversation} Conversation */
/** @typedef {import("./types").Message} Message */

const TITLE_CHARS_MAX = 60;
export const FILE_KIND = "strata-chats";
const FILE_VERSION = 1;
const MESSAGES_MAX = 10_000; // of one conversation; the server takes no more
const CONVERSATIONS_MAX = 10_000; // of one file

/** @param {string} id @param {number} now ms since 1970 @returns {Conversation} */
export function freshConversation(id, now) {
  return { id, title: "", created: now, updated: now, revision: 0, messages: [] };
}

/** The first words of the first question. @param {Message[]} messages */
export function titleOf(messages) {
  const first = messages.find((message) => message.role === "user")?.content.trim().replace(/\s+/g, " ") ?? "";
  if (!first) return "New chat";
  return first.length > TITLE_CHARS_MAX ? `${first.slice(0, TITLE_CHARS_MAX - 1).trimEnd()}…` : first;
}

/**
 * What the server gets: user and assistant in turn. An answer without a word is left out; questions that then follow
 * each other become one, because many chat templates refuse two in a row.
 * @param {Message[]} messages
 * @returns {{role: string, content: string, reasoning_content?: string}[]}
 */
export function requestMessages(messages) {
  /** @type {{role: string, content: string, reasoning_content?: string}[]} */
  const out = [];
  for (const { role, content, reasoning } of messages) {
    const last = out[out.length - 1];
    if (role === "assistant" && !content && !reasoning) continue;
    if (role === "user" && last?.role === "user") last.content += `\n\n${content}`;
    else out.push(role === "assistant" && reasoning ? { role, content, reasoning_content: reasoning } : { role, content });
  }
  return out;
}

/** The messages before number `at`: what is left when it is edited or asked again. @param {Message[]} messages @param {number} at */
export function cutBefore(messages, at) {
  return messages.slice(0, Math.max(0, at));
}

/** @param {Conversation[]} conversations */
export function exportText(conversations) {
  return JSON.stringify({ kind: FILE_KIND, version: FILE_VERSION, conversations }, null, 1);
}

/** @param {any} value @returns {Message|null} */
function importMessage(value) {
  if (typeof value !== "object" || value === null) return null;
  if (value.role !== "user" && value.role !== "assistant") return null;
  if (typeof value.content !== "string") return null;
  /** @type {Message} */
  const message = { role: value.role, content: value.content };
  if (typeof value.reasoning === "string") message.reasoning = value.reasoning;
  if (typeof value.error === "string") message.error = value.error;
  if (value.stopped === true) message.stopped = true;
  if (value.unfinished === true) message.unfinished = true;
  return message;
}

/** @param {any} value @param {string} id @param {number} now @returns {Conversation|null} */
function importConversation(value, id, now) {
  if (typeof value !== "object" || value === null || !Array.isArray(value.messages)) return null;
  if (value.messages.length > MESSAGES_MAX) return null;
  const messages = value.messages.map(importMessage);
  if (messages.includes(null)) return null;
  const created = Number.isFinite(value.created) ? value.created : now;
  const updated = Number.isFinite(value.updated) ? value.updated : now;
  return { id, title: titleOf(messages), created, updated, revision: 0, messages };
}

/**
 * Reads what exportText wrote. All or nothing; ids are given anew so that nothing is overwritten.
 * @param {string} text @param {() => string} freshId @param {number} now
 * @returns {{conversations: Conversation[], fault: string}}
 */
export function importText(text, freshId, now) {
  const refuse = (/** @type {string} */ fault) => ({ conversations: [], fault });
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    return refuse("this file is no JSON");
  }
  if (value?.kind !== FILE_KIND || !Array.isArray(value.conversations)) return refuse("this is no file of exported chats");
  if (value.version !== FILE_VERSION) return refuse(`version ${String(value.version)} of the file; known is ${FILE_VERSION}`);
  if (value.conversations.length > CONVERSATIONS_MAX) return refuse(`more than ${CONVERSATIONS_MAX} chats`);
  const conversations = value.conversations.map((/** @type {any} */ each) => importConversation(each, freshId(), now));
  const bad = conversations.indexOf(null);
  return bad < 0 ? { conversations, fault: "" } : refuse(`chat ${bad + 1} of the file cannot be read`);
}
