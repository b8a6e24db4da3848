// Protects the chat in a real browser against the real server and the demo model: it answers, streams, stops, edits,
// asks again, folds thinking, keeps drafts and chats, and says what was reused.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";

import { addPage, ask, openPage, startBrowser, startServer, stopAll } from "./server.mjs";

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
  assert.equal(await first.locator(".text").textContent(), OTTER);
  const second = await ask(page, "What is 12 plus 30?");
  assert.match(await second.locator(".text").textContent(), /42/);
  assert.match(await second.locator(".badge").textContent(), /^reused [1-9][\d,]* of [\d,]+ tokens$/);
  assert.match(await second.locator(".facts").textContent(), /\d+ tokens? · [\d.,]+ tok\/s · first after/);
  assert.match(await page.locator("#chat-context-words").textContent(), /^context [\d,]+ of 32,768 tokens$/);
  assert.deepEqual(faults, []);
  await context.close();
});

test("thinking is folded and apart from the answer", async () => {
  const { page, faults, context } = await openPage(browser, server.address);
  await page.selectOption("#effort", "medium");
  const answer = await ask(page, "What is 23 times 4?");
  assert.equal(await answer.locator(".text").textContent(), "23 times 4 is 92.");
  assert.equal(await answer.locator("details").getAttribute("open"), null);
  assert.match(await answer.locator("details p").textContent(), /split 23 into 20 and 3/);
  assert.deepEqual(faults, []);
  await context.close();
});

test("a message is edited in place and what came after it is replaced", async () => {
  const { page, faults, context } = await openPage(browser, server.address);
  await ask(page, "What is 12 plus 30?");
  await ask(page, "Hello!");
  await page.locator("#messages li.user").first().getByRole("button", { name: "Edit" }).click();
  const field = page.getByRole("textbox", { name: "Edit your message" });
  assert.equal(await field.inputValue(), "What is 12 plus 30?");
  await field.press("Escape");
  assert.equal(await page.locator("#messages li").count(), 4);
  await page.locator("#messages li.user").first().getByRole("button", { name: "Edit" }).click();
  await field.fill("What is an otter?");
  await field.press("Enter");
  await page.locator("#messages li.assistant .actions").waitFor();
  assert.equal(await page.locator("#messages li").count(), 2);
  assert.equal(await page.locator("#messages li.assistant .text").textContent(), OTTER);
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
  assert.equal(await page.locator("#messages li").count(), 2);
  assert.equal(await page.locator("#messages li.assistant .text").textContent(), OTTER);
  assert.deepEqual(faults, []);
  await context.close();
});

test("Shift and Enter breaks the line and the draft outlives a reload", async () => {
  const { page, faults, context } = await openPage(browser, server.address);
  await page.fill("#question", "first");
  await page.press("#question", "Shift+Enter");
  await page.keyboard.type("second");
  assert.equal(await page.locator("#messages li").count(), 0);
  await page.reload();
  assert.equal(await page.inputValue("#question"), "first\nsecond");
  await page.fill("#question", "   ");
  await page.press("#question", "Enter");
  assert.equal(await page.locator("#messages li").count(), 0);
  assert.deepEqual(faults, []);
  await context.close();
});

test("a chat outlives a reload and is exported and deleted and imported", async () => {
  const { page, faults, context } = await openPage(browser, server.address, { viewport: { width: 1280, height: 800 } });
  await ask(page, "What is an otter?");
  await page.locator("#chats li").waitFor();
  await page.reload();
  await page.locator("#messages li.assistant .text").waitFor();
  assert.equal(await page.locator("#messages li.assistant .text").textContent(), OTTER);

  const [saved] = await Promise.all([page.waitForEvent("download"), page.click("#chats-export")]);
  const file = JSON.parse(readFileSync(await saved.path(), "utf8"));
  assert.equal(saved.suggestedFilename(), "strata-chats.json");
  assert.equal(file.conversations[0].messages[1].content, OTTER);

  await page.click("#chats-clear");
  assert.match(await page.locator("#ask-words").textContent(), /Delete 1 chat/);
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("#chats li").count(), 1);
  await page.click("#chats-clear");
  await page.click("#ask-yes");
  await page.waitForFunction(() => document.querySelectorAll("#chats li, #messages li").length === 0);
  await page.reload();
  assert.equal(await page.locator("#chats li").count(), 0);

  await page.setInputFiles("#chats-file", { name: "c.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(file)) });
  await page.locator("#chats .open").click();
  assert.equal(await page.locator("#messages li.assistant .text").textContent(), OTTER);
  await page.setInputFiles("#chats-file", { name: "c.json", mimeType: "application/json", buffer: Buffer.from("no json") });
  await page.waitForFunction(() => /Not imported: this file is no JSON/.test(document.getElementById("chats-note").textContent));
  assert.deepEqual(faults, []);
  await context.close();
});

test("two tabs keep their own chats and see each other's", async () => {
  const one = await openPage(browser, server.address, { viewport: { width: 1280, height: 800 } });
  const two = await addPage(one.context, server.address);
  await Promise.all([ask(one.page, "What is an otter?"), ask(two.page, "What is 12 plus 30?")]);
  for (const { page } of [one, two]) await page.waitForFunction(() => document.querySelectorAll("#chats li").length === 2);
  assert.equal(await one.page.locator("#messages li.assistant .text").textContent(), OTTER);
  assert.match(await two.page.locator("#messages li.assistant .text").textContent(), /42/);

  // Both open the same chat and answer at the same time: nothing is lost.
  await two.page.locator("#chats .open", { hasText: "otter" }).click();
  await Promise.all([ask(one.page, "What is 12 plus 30?"), ask(two.page, "Hello!")]);
  await one.page.waitForFunction(() => document.querySelectorAll("#chats li").length >= 3);
  const kept = await one.page.evaluate(async () => {
    const { ChatStore } = await import("/js/chat_store.js");
    return (await new ChatStore().all()).flatMap((chat) => chat.messages.map((message) => message.content));
  });
  assert.ok(kept.includes("Hello!") && kept.includes("What is 12 plus 30?"), JSON.stringify(kept));

  // A chat that one tab deletes leaves the other's list.
  await two.page.click("#chats-clear");
  await two.page.click("#ask-yes");
  await one.page.waitForFunction(() => document.querySelectorAll("#chats li").length === 0);
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
  assert.equal(await answer.locator(".text").textContent(), OTTER);
  assert.match(await page.locator("#chats-note").textContent(), /keeps no chats/);
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
  assert.equal(await page.locator("#messages li").count(), 60);
  assert.equal(await page.locator("#messages li").last().locator(".text").textContent(), "message 299");
  await page.click("#earlier");
  assert.equal(await page.locator("#messages li").count(), 300);
  assert.deepEqual(faults, []);
  await context.close();
});
