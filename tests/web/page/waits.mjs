// Waits for what a page shows. A page works in its own time (storage, polls, frames), so a test never reads a value once
// right after an action: it reads until the value is right, or fails with the last one. STRATA_PAGE_SLOWDOWN=6 slows
// every page and its storage down, to see that nothing but the deadline depends on the machine (server.mjs).
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

export const SETTLE_MS = 120_000; // what takes longer than this even on a loaded machine hangs
const LOOK_MS = 50;

/**
 * Reads until the check holds.
 * @template T @param {() => T|Promise<T>} read @param {(value: T) => void} check throws, with the value in its words
 * @returns {Promise<T>} the value that was right
 */
export async function eventually(read, check) {
  const end = performance.now() + SETTLE_MS;
  for (;;) {
    try {
      const value = await read();
      check(value);
      return value;
    } catch (fault) {
      if (performance.now() > end) throw fault;
    }
    await sleep(LOOK_MS);
  }
}

/** @param {() => any} read @param {any} wanted */
export function becomes(read, wanted) {
  return eventually(read, (value) => assert.deepEqual(value, wanted));
}

/**
 * Waits until this one element says it. @param {import("playwright-core").Locator} place @param {string|RegExp} wanted
 * @returns {Promise<string>} what it says
 */
export async function shows(place, wanted) {
  const texts = await eventually(() => place.allTextContents(), (found) => {
    if (found.length !== 1) assert.fail(`${place} is there ${found.length} times: ${JSON.stringify(found)}`);
    if (wanted instanceof RegExp) assert.match(found[0], wanted);
    else assert.equal(found[0], wanted);
  });
  return texts[0];
}

/** @param {import("playwright-core").Locator} place @param {number} number */
export function counts(place, number) {
  return eventually(() => place.count(), (count) => {
    if (count !== number) assert.fail(`${place} is there ${count} times, not ${number}`);
  });
}

/** @param {import("playwright-core").Locator} place @param {string} name @param {string|RegExp} wanted */
export function hasAttribute(place, name, wanted) {
  return eventually(() => place.getAttribute(name), (value) => {
    if (wanted instanceof RegExp) assert.match(value ?? "", wanted);
    else assert.equal(value, wanted);
  });
}

/** @param {import("playwright-core").Locator} place */
export const appears = (place) => place.waitFor({ state: "visible" });

/** Only after a sign that the page has done what could show it. @param {import("playwright-core").Locator} place */
export const disappears = (place) => place.waitFor({ state: "hidden" });

/** The chats that the browser keeps, read out of its store. @returns {Promise<import("../../../web/js/types").Conversation[]>} */
export function keptChats(page) {
  return page.evaluate(async () => {
    const { ChatStore } = await import("/js/chat_store.js");
    globalThis.storeOfTest ??= new ChatStore();
    return globalThis.storeOfTest.all();
  });
}

/** Waits until so many chats are kept, each with the answer to its last question. */
export function keepsAnswered(page, number) {
  return eventually(() => keptChats(page), (chats) => {
    const answered = ({ messages }) => messages.at(-1)?.role === "assistant" && !messages.at(-1).unfinished;
    assert.ok(chats.length === number && chats.every(answered), JSON.stringify(chats.map(({ messages }) => messages.slice(-2))));
  });
}

/** Waits until the list of kept chats is read and has so many: also when there are none, and right after a reload. */
export function listsChats(page, number) {
  return eventually(
    () => page.evaluate(() => [document.getElementById("chats-box").dataset.count, document.querySelectorAll("#chats li").length]),
    (found) => assert.deepEqual(found, [String(number), number]));
}
