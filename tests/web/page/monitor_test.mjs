// Protects the monitor: a stranger reads from it what the engine is doing. The fake engine loads, reads and writes at a
// known pace; the real one fills the table.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";

import { idsOf } from "./fake.mjs";
import { ask, openPage, startBrowser, startServer, startWithFake, stateIs, stopAll } from "./server.mjs";
import { becomes, counts, disappears, eventually, hasAttribute, shows } from "./waits.mjs";

const HIDDEN_MS = 5000; // a page that is seen asks several times in it
const WIDE = { viewport: { width: 1440, height: 900 }, hash: "#monitor" };
let browser;

before(async () => { browser = await startBrowser(); });
after(async () => {
  await browser?.close();
  stopAll();
});

const at = (page, id) => page.locator(`#${id}`);

/** What one poll of the server has put on the page: all of it from one moment. */
function moment(page) {
  return page.evaluate(() => {
    const of = (id) => document.getElementById(id).textContent;
    return {
      words: of("now-words"), queue: of("now-queue"), title: document.title, wrote: Number.parseFloat(of("wrote")), wroteWhen: of("wrote-when"),
      bar: Number(document.getElementById("now-bar").getAttribute("aria-valuenow")), icon: document.getElementById("favicon").getAttribute("href"),
    };
  });
}

test("loading is said in words and in the title", async () => {
  const server = await startWithFake({ script: ["line LOAD 25000000 100000000", "sleep 600000"], awaitReady: false });
  const { page, context } = await openPage(browser, server.address, WIDE);
  await eventually(() => moment(page), (now) => {
    assert.match(now.words, /^Loading the model \(25 %\)/);
    assert.match(now.title, /^loading 25 %/);
    assert.equal(now.bar, 25);
  });
  await context.close();
  await server.stop();
});

test("idle, reading and writing are said in words and in the title and favicon", async () => {
  // Some 20 seconds of each: a page on a loaded machine has time to look.
  const args = ["--prompt-per-second 45", "--prompt-chunk 8", "--tokens-per-second 15", "--answer-tokens 300",
    `--answer ids:${idsOf("word ").join(",")}`];
  const server = await startWithFake({ args });
  const { page, faults, context } = await openPage(browser, server.address, WIDE);
  await stateIs(page, "ready");
  const idle = await eventually(() => moment(page), (now) => {
    assert.equal(now.words, "Ready: the engine waits for a request");
    assert.equal(now.wroteWhen, "no answer yet");
  });

  await page.evaluate(() => {
    const body = { messages: [{ role: "user", content: "x y z ".repeat(150) }], max_tokens: 400 };
    for (let i = 0; i < 2; ++i) {
      fetch("/v1/chat/completions", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
    }
  });
  await eventually(() => moment(page), (now) => {
    assert.match(now.words, /^Reading the prompt: [\d,]+ of [\d,]+ tokens \(\d+ %\), for \d+ s, about \d+ s left$/);
    assert.equal(now.queue, "1 request waiting");
    assert.match(now.title, /^reading \d+ %, \d+ s left · Strata$/);
    assert.ok(now.bar <= 100, `${now.bar} %`);
  });
  await eventually(() => moment(page), (now) => {
    assert.match(now.words, /^Answering: \d+ of at most 400 tokens at \d+ tok\/s/);
    assert.match(now.title, /^answering, \d+ tokens? · Strata$/);
    assert.notEqual(now.icon, idle.icon);
    assert.ok(now.wrote >= 10 && now.wrote <= 20, `15 tokens a second are shown as ${now.wrote}`);
    assert.equal(now.wroteWhen, "now");
  });
  await shows(at(page, "read-summary"), /^last 5 minutes: [\d,]+ tokens read, at most \d+ in one second$/);
  assert.deepEqual(faults, []);
  await context.close();
  await server.stop();
});

test("the chat says how far its own prompt is read", async () => {
  const args = ["--prompt-per-second 30", "--prompt-chunk 8", "--tokens-per-second 50", "--answer-tokens 5", `--answer ids:${idsOf("word ").join(",")}`];
  const server = await startWithFake({ args });
  const { page, faults, context } = await openPage(browser, server.address);
  await page.fill("#question", "x y z ".repeat(60));
  await page.press("#question", "Enter");
  const waiting = page.locator("#messages .waiting");
  const reading = await eventually(() => page.evaluate(() => ({
    words: document.querySelector(".waiting p")?.textContent ?? "",
    bar: Number(document.querySelector(".waiting [role=progressbar]")?.getAttribute("aria-valuenow")),
  })), ({ words, bar }) => {
    assert.match(words, /^Reading the prompt: [\d,]+ of [\d,]+ tokens \(([1-9]\d?|100) %\)$/);
    assert.ok(bar > 0, `${bar} %`);
  });
  const [, total] = /of ([\d,]+) tokens/.exec(reading.words);
  await shows(page.locator("#messages .facts"), new RegExp(`of ${total} tokens`));
  await counts(waiting, 0);
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
  await counts(page.locator("#requests tr.request"), 2);
  await eventually(() => page.locator("#requests tr.request").first().locator("td").allTextContents(), (cells) => {
    assert.equal(cells.at(-1), "done");
    assert.match(cells[1], /^\d+$/);
  });
  await shows(at(page, "context-words"), /^[\d,]+ of 32,768 tokens$/);
  await shows(at(page, "reuse-detail"), /^[1-9][\d,]* of [\d,]+ prompt tokens were not read again \(last 2 requests\)$/);
  await shows(at(page, "ram-words"), /GiB free of [\d.]+ GiB$/);
  await shows(at(page, "cpu-words"), /^\d+ %$/);
  await disappears(at(page, "gpus"));

  // By keyboard: order by prompt, open the first row.
  await page.locator("#requests th[data-key=prompt] button").press("Enter");
  await hasAttribute(page.locator("#requests th[data-key=prompt]"), "aria-sort", "descending");
  await eventually(() => page.locator("#requests td.c-prompt").allTextContents(),
    (prompts) => assert.ok(prompts.length === 2 && Number(prompts[0]) >= Number(prompts[1]), `${prompts}`));
  await page.locator("#requests .toggle").first().press("Enter");
  await hasAttribute(page.locator("#requests .toggle").first(), "aria-expanded", "true");
  await becomes(() => page.locator("#requests .toggle").first().evaluate((node) => node === document.activeElement), true);
  await hasAttribute(page.locator("#requests .detail svg"), "aria-label", /^Where the time went: .*reading the prompt .*writing the answer/);
  await shows(page.locator("#requests .detail"), /Continued from/);
  await page.fill("#filter", "nowhere");
  await shows(at(page, "requests-summary"), "No request has these words.");
  await page.fill("#filter", "");
  await shows(at(page, "requests-summary"), "2 requests, none with an error");

  const [saved] = await Promise.all([page.waitForEvent("download"), page.click("#requests-csv")]);
  assert.equal(readFileSync(await saved.path(), "utf8").trim().split("\r\n").length, 3);
  await hasAttribute(page.locator("#first-chart svg.scatter"), "aria-label", /^2 requests: /);
  await counts(page.locator("#first-chart .dot"), 2);
  await page.locator("#monitor summary", { hasText: "as a table" }).click();
  await counts(page.locator("#speeds tbody tr:visible"), 10);
  // Rows stay while others come: a click that began on one is not lost.
  await page.locator("#requests tr.request").evaluateAll((rows) => { for (const row of rows) row.dataset.same = "yes"; });
  const more = await fetch(`${server.address}/v1/chat/completions`, {
    method: "POST", headers: { "content-type": "application/json" },
    body: JSON.stringify({ messages: [{ role: "user", content: "What is an otter?" }], max_tokens: 4 }),
  });
  assert.equal(more.status, 200, await more.text());
  await counts(page.locator("#requests tr.request"), 3);
  await counts(page.locator("#requests tr.request[data-same]"), 2);
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
  const atLeast = (number) => eventually(() => polls, (count) => assert.ok(count >= number, `${count} polls`));
  await atLeast(2);
  const turn = (hidden) => page.evaluate((value) => {
    Object.defineProperty(document, "hidden", { get: () => value, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
  await turn(true);
  polls = 0;
  await page.waitForTimeout(HIDDEN_MS);
  assert.ok(polls <= 1, `${polls} polls; one may have been on its way`);
  await turn(false);
  await atLeast(3);
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
  await shows(page.locator("#gpus h2"), "Fake GPU");
  await shows(at(page, "gpus"), /73 % busy.*memory 20\.0 GiB of 80\.0 GiB.*412 W, –/);
  for (const id of ["cpu-words", "ram-words", "context-words"]) await shows(at(page, id), "–");
  assert.deepEqual(faults, []);
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await context.close();
  await server.stop();
});
