// Protects the first page in a real browser against the real server and the demo model: it answers,
// streams, stops, folds thinking, shows what the engine did, and runs nothing that a model wrote.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { openPage, startBrowser, startServer } from "./server.mjs";

const OTTER = "Otter: freshwater carnivorous mammal having webbed and clawed feet and dark brown fur.";
let server;
let browser;

before(async () => {
  server = await startServer();
  browser = await startBrowser();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

async function ask(page, text) {
  const answers = await page.locator("#messages li.assistant").count();
  await page.fill("#question", text);
  await page.press("#question", "Enter");
  const answer = page.locator("#messages li.assistant").nth(answers);
  await answer.locator(".facts, .error").waitFor({ timeout: 30_000 });
  return answer;
}

test("the page answers the recorded text and says what was reused", async () => {
  const { page, faults } = await openPage(browser, server.address);
  const first = await ask(page, "What is an otter?");
  assert.equal(await first.locator(".text").textContent(), OTTER);
  const second = await ask(page, "What is 12 plus 30?");
  assert.match(await second.locator(".text").textContent(), /42/);
  assert.match(await second.locator(".facts").textContent(), /reused [1-9]\d* of \d+ tokens/);
  assert.deepEqual(faults, []);
  await page.context().close();
});

test("the monitor shows the request and the state in words", async () => {
  const { page, faults } = await openPage(browser, server.address);
  await ask(page, "Hello!");
  await page.locator("#requests tbody tr").first().waitFor();
  const cells = await page.locator("#requests tbody tr").first().locator("td").allTextContents();
  assert.equal(cells.at(-1), "stop");
  assert.match(cells[3], /^\d+$/);
  await page.waitForFunction(() => document.getElementById("state").textContent === "ready");
  assert.match(await page.title(), /^ready · Strata$/);
  assert.match(await page.locator("#context-words").textContent(), /^[\d,]+ of 32,768 tokens$/);
  assert.deepEqual(faults, []);
  await page.context().close();
});

test("thinking is folded and apart from the answer", async () => {
  const { page, faults } = await openPage(browser, server.address);
  await page.selectOption("#effort", "medium");
  const answer = await ask(page, "What is 23 times 4?");
  assert.equal(await answer.locator(".text").textContent(), "23 times 4 is 92.");
  assert.equal(await answer.locator("details").getAttribute("open"), null);
  assert.match(await answer.locator("details p").textContent(), /split 23 into 20 and 3/);
  assert.deepEqual(faults, []);
  await page.context().close();
});

test("what a model writes stays text", async () => {
  const { page, faults } = await openPage(browser, server.address);
  const hostile = "<img src=x onerror=document.title='owned'>";
  const answer = await ask(page, `Repeat after me: ${hostile}`);
  assert.equal(await page.locator("#messages img").count(), 0);
  assert.equal(await page.locator("#messages li.user .text").textContent(), `Repeat after me: ${hostile}`);
  assert.equal(await answer.locator(".text *").count(), 0);
  assert.notEqual(await page.title(), "owned");
  assert.deepEqual(faults, []);
  await page.context().close();
});

test("stop ends a running answer and the next one works", async () => {
  const { page, faults } = await openPage(browser, server.address);
  await page.fill("#question", "Count from 1 to 14.");
  await page.click("#send");
  await page.locator("#stop:visible").click({ timeout: 5000 }).catch(() => {});
  const answer = page.locator("#messages li.assistant").first();
  await answer.locator(".facts").waitFor();
  const next = await ask(page, "What is an otter?");
  assert.match(await next.locator(".text").textContent(), /\S/);
  assert.deepEqual(faults, []);
  await page.context().close();
});

test("at 360 pixels nothing scrolls sideways in light and dark", async () => {
  for (const colorScheme of ["light", "dark"]) {
    const options = { viewport: { width: 360, height: 740 }, colorScheme };
    const { page, faults } = await openPage(browser, server.address, options);
    await ask(page, "Tell me a short story about a fox called Mira.");
    const widths = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
    assert.ok(widths[0] <= widths[1], `${colorScheme}: ${widths}`);
    assert.deepEqual(faults, []);
    await page.context().close();
  }
});

test("a page whose server is gone says so", async () => {
  const own = await startServer();
  const { page } = await openPage(browser, own.address);
  await page.waitForFunction(() => document.getElementById("state").textContent === "ready");
  await own.stop();
  await page.waitForFunction(() => document.getElementById("state").textContent === "no connection");
  const answer = await ask(page, "Hello!");
  assert.equal(await answer.locator(".error").count(), 1);
  await page.context().close();
});
