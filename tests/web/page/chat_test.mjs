// Protects the chat in a real browser against the real server and the demo model: it answers, streams, stops, edits,
// asks again, folds thinking, keeps drafts and chats, and says what was reused.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";

import { addPage, ask, openPage, startBrowser, startServer, stopAll } from "./server.mjs";
import { appears, becomes, counts, disappears, hasAttribute, keepsAnswered, keptChats, listsChats, shows } from "./waits.mjs";

const OTTER = "Otter: freshwater carnivorous mammal having webbed and clawed feet and dark brown fur.";
let server;
let browser;

before(async () => {
  server = await startServer();
  browser = await startBrowser();
});

after(async () => {
  await browser?.close();
  stopAll();
});

test("the page answers the recorded text and says what was reused", async () => {
  const { page, faults, context } = await openPage(browser, server.address);
  const first = await ask(page, "What is an otter?");
  await shows(first.locator(".text"), OTTER);
  const second = await ask(page, "What is 12 plus 30?");
  await shows(second.locator(".text"), /42/);
  await shows(second.locator(".badge"), /^reused [1-9][\d,]* of [\d,]+ tokens$/);
  await shows(second.locator(".facts"), /\d+ tokens? · [\d.,]+ tok\/s · first after/);
  await shows(page.locator("#chat-context-words"), /^context [\d,]+ of 32,768 tokens$/);
  assert.deepEqual(faults, []);
  await context.close();
});

test("thinking is folded and apart from the answer", async () => {
  const { page, faults, context } = await openPage(browser, server.address);
  await page.selectOption("#effort", "medium");
  const answer = await ask(page, "What is 23 times 4?");
  await shows(answer.locator(".text"), "23 times 4 is 92.");
  await shows(answer.locator("details p"), /split 23 into 20 and 3/);
  await hasAttribute(answer.locator("details"), "open", null);
  assert.deepEqual(faults, []);
  await context.close();
});

test("a message is edited in place and what came after it is replaced", async () => {
  const { page, faults, context } = await openPage(browser, server.address);
  await ask(page, "What is 12 plus 30?");
  await ask(page, "Hello!");
  await page.locator("#messages li.user").first().getByRole("button", { name: "Edit" }).click();
  const field = page.getByRole("textbox", { name: "Edit your message" });
  await becomes(() => field.inputValue(), "What is 12 plus 30?");
  await field.press("Escape");
  await disappears(field);
  await counts(page.locator("#messages li"), 4);
  await page.locator("#messages li.user").first().getByRole("button", { name: "Edit" }).click();
  await field.fill("What is an otter?");
  await field.press("Enter");
  await page.locator("#messages li.assistant .actions").waitFor();
  await counts(page.locator("#messages li"), 2);
  await shows(page.locator("#messages li.assistant .text"), OTTER);
  assert.deepEqual(faults, []);
  await context.close();
});

test("regenerate asks the same again in the place of the answer", async () => {
  const { page, faults, context } = await openPage(browser, server.address);
  await ask(page, "What is an otter?");
  const asked = page.waitForRequest("**/v1/chat/completions");
  await page.getByRole("button", { name: "Regenerate" }).click();
  const body = (await asked).postDataJSON();
  assert.deepEqual(body.messages, [{ role: "user", content: "What is an otter?" }]);
  await page.locator("#messages li.assistant .actions").waitFor();
  await counts(page.locator("#messages li"), 2);
  await shows(page.locator("#messages li.assistant .text"), OTTER);
  assert.deepEqual(faults, []);
  await context.close();
});

test("Shift and Enter breaks the line and the draft outlives a reload", async () => {
  const { page, faults, context } = await openPage(browser, server.address);
  await page.fill("#question", "first");
  await page.press("#question", "Shift+Enter");
  await page.keyboard.type("second");
  await becomes(() => page.inputValue("#question"), "first\nsecond");
  await page.reload();
  await becomes(() => page.inputValue("#question"), "first\nsecond");
  await page.fill("#question", "   ");
  await page.press("#question", "Enter");
  // The broken line and the empty message sent nothing: this is the first question.
  await ask(page, "What is an otter?");
  await counts(page.locator("#messages li"), 2);
  await keepsAnswered(page, 1);
  assert.deepEqual(faults, []);
  await context.close();
});

test("a chat outlives a reload and is exported and deleted and imported", async () => {
  const { page, faults, context } = await openPage(browser, server.address, { viewport: { width: 1280, height: 800 } });
  await ask(page, "What is an otter?");
  await keepsAnswered(page, 1);
  await page.reload();
  await shows(page.locator("#messages li.assistant .text"), OTTER);

  const [saved] = await Promise.all([page.waitForEvent("download"), page.click("#chats-export")]);
  const file = JSON.parse(readFileSync(await saved.path(), "utf8"));
  assert.equal(saved.suggestedFilename(), "strata-chats.json");
  assert.equal(file.conversations[0].messages[1].content, OTTER);

  await page.click("#chats-clear");
  await appears(page.locator("#ask"));
  await shows(page.locator("#ask-words"), /Delete 1 chat/);
  await page.keyboard.press("Escape");
  await disappears(page.locator("#ask"));
  await keepsAnswered(page, 1);
  await listsChats(page, 1);
  await page.click("#chats-clear");
  await page.click("#ask-yes");
  await shows(page.locator("#chats-note"), "All chats are deleted.");
  await counts(page.locator("#chats li, #messages li"), 0);
  await page.reload();
  await listsChats(page, 0);

  await page.setInputFiles("#chats-file", { name: "c.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(file)) });
  await page.locator("#chats .open").click();
  await shows(page.locator("#messages li.assistant .text"), OTTER);
  await page.setInputFiles("#chats-file", { name: "c.json", mimeType: "application/json", buffer: Buffer.from("no json") });
  await shows(page.locator("#chats-note"), /Not imported: this file is no JSON/);
  assert.deepEqual(faults, []);
  await context.close();
});

/** Holds the answers back until each of the pages has asked. */
async function holdAnswers(pages) {
  const held = [];
  for (const page of pages) {
    await page.route("**/v1/chat/completions", (route) => {
      held.push(route);
      if (held.length === pages.length) for (const each of held) each.continue();
    });
  }
}

test("two tabs keep their own chats and see each other's", async () => {
  const one = await openPage(browser, server.address, { viewport: { width: 1280, height: 800 } });
  const two = await addPage(one.context, server.address);
  await Promise.all([ask(one.page, "What is an otter?"), ask(two.page, "What is 12 plus 30?")]);
  for (const { page } of [one, two]) await listsChats(page, 2);
  await shows(one.page.locator("#messages li.assistant .text"), OTTER);
  await shows(two.page.locator("#messages li.assistant .text"), /42/);
  await keepsAnswered(one.page, 2);
  const untouched = one.page.locator("#chats li", { hasText: "12 plus 30" });
  await untouched.evaluate((node) => { node.dataset.same = "yes"; });

  // Both open the same chat and answer at the same time: nothing is lost.
  await two.page.locator("#chats .open", { hasText: "otter" }).click();
  await shows(two.page.locator("#messages li.assistant .text"), OTTER);
  await holdAnswers([one.page, two.page]);
  await Promise.all([ask(one.page, "What is 12 plus 30?"), ask(two.page, "Hello!")]);
  await keepsAnswered(one.page, 3);
  const kept = (await keptChats(one.page)).flatMap((chat) => chat.messages.map((message) => message.content));
  assert.ok(kept.includes("Hello!") && kept.includes("What is 12 plus 30?"), JSON.stringify(kept));
  for (const { page } of [one, two]) await listsChats(page, 3);
  await counts(one.page.locator("#chats li[data-same]"), 1); // an entry stays while others come: a click on it is not lost

  // A chat that one tab deletes leaves the other's list.
  await two.page.click("#chats-clear");
  await two.page.click("#ask-yes");
  await listsChats(one.page, 0);
  assert.deepEqual([...one.faults, ...two.faults], []);
  await one.context.close();
});

test("without storage the chat works and says that nothing is kept", async () => {
  const { page, faults, context } = await openPage(browser, server.address);
  await page.addInitScript(() => {
    indexedDB.open = () => { throw new Error("forbidden"); };
    Storage.prototype.setItem = () => { throw new Error("forbidden"); };
  });
  await page.reload();
  const answer = await ask(page, "What is an otter?");
  await shows(answer.locator(".text"), OTTER);
  await shows(page.locator("#chats-note"), /keeps no chats/);
  assert.deepEqual(faults, []);
  await context.close();
});

test("long conversations show their newest messages and the rest on demand", async () => {
  const { page, faults, context } = await openPage(browser, server.address, { viewport: { width: 1280, height: 800 } });
  const messages = Array.from({ length: 300 }, (_, i) => ({ role: i % 2 ? "assistant" : "user", content: `message ${i}` }));
  const file = JSON.stringify({ kind: "strata-chats", version: 1, conversations: [{ messages }] });
  await page.setInputFiles("#chats-file", { name: "c.json", mimeType: "application/json", buffer: Buffer.from(file) });
  await page.locator("#chats .open").click();
  await page.locator("#earlier").waitFor();
  await counts(page.locator("#messages li"), 60);
  await shows(page.locator("#messages li").last().locator(".text"), "message 299");
  await page.click("#earlier");
  await counts(page.locator("#messages li"), 300);
  assert.deepEqual(faults, []);
  await context.close();
});
