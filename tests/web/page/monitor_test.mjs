// Protects the monitor: a stranger reads from it what the engine is doing. The fake engine loads, reads and writes at a
// known pace; the real one fills the table.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";

import { idsOf } from "./fake.mjs";
import { ask, openPage, startBrowser, startServer, startWithFake, stateIs, stopAll } from "./server.mjs";

const WIDE = { viewport: { width: 1440, height: 900 }, hash: "#monitor" };
let browser;

before(async () => { browser = await startBrowser(); });
after(async () => {
  await browser?.close();
  stopAll();
});

const textOf = (page, id) => page.locator(`#${id}`).textContent();

/** Waits until the element's text matches. */
async function becomes(page, id, pattern) {
  await page.waitForFunction(([name, source]) => new RegExp(source).test(document.getElementById(name).textContent),
    [id, pattern.source]);
}

test("loading is said in words and in the title", async () => {
  const server = await startWithFake({ script: ["line LOAD 25000000 100000000", "sleep 600000"], awaitReady: false });
  const { page, context } = await openPage(browser, server.address, WIDE);
  await becomes(page, "now-words", /^Loading the model \(25 %\)/);
  assert.match(await page.title(), /^loading 25 %/);
  assert.equal(await page.locator("#now-bar").getAttribute("aria-valuenow"), "25");
  await context.close();
  await server.stop();
});

test("idle, reading and writing are said in words and in the title and favicon", async () => {
  const args = ["--prompt-per-second 100", "--prompt-chunk 8", "--tokens-per-second 15", "--answer-tokens 45",
    `--answer ids:${idsOf("word ").join(",")}`];
  const server = await startWithFake({ args });
  const { page, faults, context } = await openPage(browser, server.address, WIDE);
  await becomes(page, "state-text", /^ready$/);
  const idle = await page.locator("#favicon").getAttribute("href");
  assert.equal(await textOf(page, "now-words"), "Ready: the engine waits for a request");
  assert.equal(await textOf(page, "wrote-when"), "no answer yet");

  await page.evaluate(() => {
    const body = { messages: [{ role: "user", content: "x y z ".repeat(150) }], max_tokens: 60 };
    for (let i = 0; i < 2; ++i) {
      fetch("/v1/chat/completions", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
    }
  });
  await becomes(page, "now-words", /^Reading the prompt: [\d,]+ of [\d,]+ tokens \(\d+ %\), for \d s, about \d+ s left$/);
  assert.equal(await textOf(page, "now-queue"), "1 request waiting");
  assert.match(await page.title(), /^reading \d+ %, \d+ s left · Strata$/);
  assert.ok(Number(await page.locator("#now-bar").getAttribute("aria-valuenow")) <= 100);
  await becomes(page, "now-words", /^Answering: \d+ of at most 60 tokens at \d+ tok\/s/);
  assert.match(await page.title(), /^answering, \d+ tokens? · Strata$/);
  assert.notEqual(await page.locator("#favicon").getAttribute("href"), idle);
  const wrote = Number.parseFloat(await textOf(page, "wrote"));
  assert.ok(wrote >= 10 && wrote <= 20, `15 tokens a second are shown as ${wrote}`);
  assert.equal(await textOf(page, "wrote-when"), "now");
  await becomes(page, "read-summary", /^last 5 minutes: [\d,]+ tokens read, at most \d+ in one second$/);
  assert.deepEqual(faults, []);
  await context.close();
  await server.stop();
});

test("the chat says how far its own prompt is read", async () => {
  const args = ["--prompt-per-second 60", "--prompt-chunk 8", "--tokens-per-second 50", "--answer-tokens 5", `--answer ids:${idsOf("word ").join(",")}`];
  const server = await startWithFake({ args });
  const { page, faults, context } = await openPage(browser, server.address);
  await page.fill("#question", "x y z ".repeat(60));
  await page.press("#question", "Enter");
  const waiting = page.locator("#messages .waiting");
  await page.waitForFunction(() => /^Reading the prompt: [\d,]+ of [\d,]+ tokens \(([1-9]\d?|100) %\)$/.test(document.querySelector(".waiting p")?.textContent ?? ""));
  const [, total] = /of ([\d,]+) tokens/.exec(await waiting.textContent());
  assert.ok(Number(await waiting.getByRole("progressbar").getAttribute("aria-valuenow")) > 0);
  await page.locator("#messages .facts").waitFor();
  assert.equal(await waiting.count(), 0);
  assert.match(await page.locator("#messages .facts").textContent(), new RegExp(`of ${total} tokens`));
  assert.deepEqual(faults, []);
  await context.close();
  await server.stop();
});

test("the table shows each request with its steps and is sorted and filtered by keyboard", async () => {
  const server = await startServer();
  const { page, faults, context } = await openPage(browser, server.address, { viewport: WIDE.viewport });
  await ask(page, "What is an otter?");
  await ask(page, "What is 12 plus 30?");
  await page.click("#tab-monitor");
  await page.waitForFunction(() => document.querySelectorAll("#requests tr.request").length === 2);
  const cells = await page.locator("#requests tr.request").first().locator("td").allTextContents();
  assert.equal(cells.at(-1), "done");
  assert.match(cells[1], /^\d+$/);
  assert.match(await textOf(page, "context-words"), /^[\d,]+ of 32,768 tokens$/);
  assert.match(await textOf(page, "reuse-detail"), /^[1-9][\d,]* of [\d,]+ prompt tokens were not read again \(last 2 requests\)$/);
  assert.match(await textOf(page, "ram-words"), /GiB free of [\d.]+ GiB$/);
  await becomes(page, "cpu-words", /^\d+ %$/);
  assert.ok(await page.locator("#gpus").isHidden());

  // By keyboard: order by prompt, open the first row.
  await page.locator("#requests th[data-key=prompt] button").press("Enter");
  assert.equal(await page.locator("#requests th[data-key=prompt]").getAttribute("aria-sort"), "descending");
  const prompts = (await page.locator("#requests td.c-prompt").allTextContents()).map(Number);
  assert.ok(prompts[0] >= prompts[1]);
  await page.locator("#requests .toggle").first().press("Enter");
  assert.equal(await page.locator("#requests .toggle").first().getAttribute("aria-expanded"), "true");
  assert.ok(await page.locator("#requests .toggle").first().evaluate((node) => node === document.activeElement));
  const name = await page.locator("#requests .detail svg").getAttribute("aria-label");
  assert.match(name, /^Where the time went: .*reading the prompt .*writing the answer/);
  assert.match(await page.locator("#requests .detail").textContent(), /Continued from/);
  await page.fill("#filter", "nowhere");
  assert.equal(await textOf(page, "requests-summary"), "No request has these words.");
  await page.fill("#filter", "");

  const [saved] = await Promise.all([page.waitForEvent("download"), page.click("#requests-csv")]);
  assert.equal(readFileSync(await saved.path(), "utf8").trim().split("\r\n").length, 3);
  assert.match(await page.locator("#first-chart svg.scatter").getAttribute("aria-label"), /^2 requests: /);
  assert.equal(await page.locator("#first-chart .dot").count(), 2);
  await page.locator("#monitor summary", { hasText: "as a table" }).click();
  assert.equal(await page.locator("#speeds tbody tr").count(), 10);
  assert.deepEqual(faults, []);
  await context.close();
  await server.stop();
});

test("a hidden tab does not poll", async () => {
  const server = await startServer();
  const { page, context } = await openPage(browser, server.address, WIDE);
  await stateIs(page, "ready");
  let polls = 0;
  page.on("request", (request) => { polls += request.url().endsWith("/metrics") ? 1 : 0; });
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { get: () => true, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await page.waitForTimeout(2500);
  assert.ok(polls <= 1, `${polls} polls`);
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { get: () => false, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await page.waitForRequest("**/metrics");
  await context.close();
  await server.stop();
});

test("what is unknown is a dash and a GPU shows its figures", async () => {
  const server = await startServer();
  const { page, faults, context } = await openPage(browser, server.address, WIDE);
  await stateIs(page, "ready");
  await page.route("**/metrics", async (route) => {
    const metrics = await (await route.fetch()).json();
    metrics.hardware = {
      cpu: null, ram: null, gpu: null,
      gpus: [{ name: "Fake GPU", memory_total_bytes: 80 * 2 ** 30, memory_used_bytes: 20 * 2 ** 30, load_share: 0.73, power_watts: 412, temperature_c: null }],
    };
    metrics.engine.context = null;
    await route.fulfill({ json: metrics });
  });
  await page.locator("#gpus .tile").waitFor();
  assert.equal(await page.locator("#gpus h2").textContent(), "Fake GPU");
  assert.match(await page.locator("#gpus").textContent(), /73 % busy.*memory 20\.0 GiB of 80\.0 GiB.*412 W, –/);
  for (const id of ["cpu-words", "ram-words", "context-words"]) assert.equal(await textOf(page, id), "–", id);
  assert.deepEqual(faults, []);
  await context.close();
  await server.stop();
});
