// Protects the monitor's figures: a day of switches, hits, an eviction, a pressure event and a restart is lived by the
// fake engine behind the real server, and every figure on the page is compared with the day's list.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { BUDGET_MIB, DAY, PARKED, PRESSURE, SLOTS, dayScript } from "./day.mjs";
import { openPage, startBrowser, startWithFake, stopAll } from "./server.mjs";
import { counts, eventually, shows } from "./waits.mjs";

const WINDOW = 10;
const MIB = 2 ** 20;
const newest = DAY.slice(-WINDOW);
const last = DAY[DAY.length - 1];
const sum = (steps, key) => steps.reduce((total, each) => total + each[key], 0);
const count = (value) => value.toLocaleString("en-US");
const percent = (share) => `${Math.round(share * 100)} %`;
let browser;
let server;
let page;
let faults;

/** Asks as the day goes; a start of the engine that has ended is waited for. */
async function live() {
  for (const [i, step] of DAY.entries()) {
    if (i > 0 && DAY[i - 1].start !== step.start) await restarted();
    const response = await fetch(`${server.address}/v1/chat/completions`, {
      method: "POST", headers: { "content-type": "application/json" },
      body: JSON.stringify({ messages: [{ role: "user", content: `request ${i}` }], max_tokens: 8 }),
    });
    assert.equal(response.status, 200, await response.clone().text());
    const usage = (await response.json()).usage;
    assert.deepEqual([usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens], [step.prompt, step.reused], `request ${i}`);
  }
}

async function restarted() {
  await eventually(async () => (await fetch(`${server.address}/metrics`)).json(),
    ({ engine, live: now }) => assert.deepEqual([engine.epoch, now.state], [2, "idle"]));
}

before(async () => {
  browser = await startBrowser();
  server = await startWithFake({
    script: dayScript(1024),
    options: ["--ui-dir", join(import.meta.dirname, "../../../web"), "--monitor-cache-window", String(WINDOW)],
  });
  ({ page, faults } = await openPage(browser, server.address, { viewport: { width: 1440, height: 900 }, hash: "#monitor" }));
  await live();
  await counts(page.locator("#requests tr.request"), DAY.length);
  await counts(page.locator("#parked tbody tr"), PARKED.length);
});
after(async () => {
  await browser?.close();
  stopAll();
});

const at = (id) => page.locator(`#${id}`);

const cellsOf = (rows) => rows.evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));

test("the bars are the sums of the last requests of the day", async () => {
  const prompt = sum(newest, "prompt");
  const reused = sum(newest, "reused");
  const switches = sum(newest, "switched");
  const hits = sum(newest, "restored");
  assert.ok(hits > 0 && hits < switches);
  await shows(at("cache-reused-head"), `Prompt reused (last ${WINDOW})`);
  await shows(at("cache-reused-words"), percent(reused / prompt));
  await shows(at("cache-reused-detail"), `${count(reused)} of ${count(prompt)} prompt tokens in ${WINDOW} requests`);
  await shows(at("cache-hits-words"), percent(hits / switches));
  await shows(at("cache-hits-detail"), `${hits} of ${switches} switches in ${WINDOW} requests`);
  await shows(at("cache-parked-words"), `${last.parked} of ${SLOTS}`);
  await shows(at("cache-memory-words"), `${last.bytes / MIB} MiB of ${BUDGET_MIB} MiB`);
  await shows(at("cache-memory-detail"),
    `evicted ${last.evictions}, released ${last.released}, superseded ${last.superseded}, not parked 0, of them lost at a switch ${last.lost}`);
  await shows(at("cache-sentence"), new RegExp(`^It works: ${hits} of ${switches} switches .* The last miss: it was released`));
  await shows(at("cache-restart"), /^The engine restarted among these requests/);
});

test("the table of the lines has each request of the window and the restart", async () => {
  await page.click("#cache-toggle");
  const wanted = [];
  for (const [i, step] of [...newest].reverse().entries()) {
    if (i > 0 && step.start !== wanted.start) wanted.push("engine restart");
    wanted.start = step.start;
    const word = step.switched ? (step.restored ? "hit" : "miss") : "no switch";
    const bytes = step.bytes === 0 ? "0 KiB" : `${step.bytes / MIB} MiB`;
    wanted.push([count(step.prompt), count(step.reused), word, count(step.parked), bytes].join());
  }
  await eventually(() => cellsOf(page.locator("#cache-table tbody tr")),
    (rows) => assert.deepEqual(rows.map((row) => (row[0] === "engine restart" ? row[0] : row.slice(1).join())), [...wanted]));
  await page.click("#cache-toggle");
});

test("the lanes show who was parked and brought back and evicted and released", async () => {
  const shown = newest.flatMap((step) => step.events);
  const kinds = (kind) => shown.filter((event) => event.startsWith(`CONV ${kind} `)).length;
  await shows(at("lanes-summary"), new RegExp(`^The last ${WINDOW} requests, one column each, ${sum(newest, "switched")} switches; ${kinds("park")} parked, ` +
    `${kinds("restore")} brought back, ${kinds("evict")} evicted or dropped, 1 released, ${kinds("lost")} not parked\\.`));
  for (const [mark, number] of [["park", kinds("park")], ["restore", kinds("restore")], ["evict", kinds("evict")], ["release", 1],
    ["lost", kinds("lost")], ["pressure", 1], ["restart", 1]]) {
    await counts(page.locator(`#lanes-plot .sign-${mark}`), number);
  }
  await counts(page.locator("#lanes-plot .step-read"), WINDOW);
  const named = new Set(newest.map((step) => `${step.start}:${step.conv}`)).size;
  await counts(page.locator("#lanes-names li"), named + 1); // and one that was only evicted or parked
  await shows(page.locator("#lanes-names li.live b"), `Chat ${last.conv}`);
});

test("the pressure event is told once and in words", async () => {
  await counts(page.locator("#pressures li"), 1);
  await eventually(() => at("pressures").textContent(), (words) => assert.ok(words.endsWith(` ${PRESSURE.words}`), words));
});

test("each request's detail has its figures and its reason", async () => {
  for (const [i, step] of DAY.entries()) {
    const row = page.locator("#requests tr.request").nth(DAY.length - 1 - i);
    await eventually(() => row.locator("td").allTextContents(), (cells) =>
      assert.deepEqual([i, ...cells.slice(1, 4)], [i, count(step.prompt), count(step.reused), count(step.written)]));
  }
  await page.locator("#requests .toggle").first().click();
  const detail = page.locator("#requests .detail");
  await shows(detail, /Not reused becauseit was released when the machine was short of memory/);
  await shows(detail, new RegExp(`First differing positiontoken ${count(last.common)}`));
  await shows(detail, /parking another conversation 13 ms/);
  await shows(detail, new RegExp(`Conversation${last.conv}Changed conversationyes, a miss`));
  const groups = { cold: 0, root: 0, warm: 0, restored: 0 };
  for (const step of DAY) ++groups[step.restored ? "restored" : step.reused === 0 ? "cold" : step.switched ? "root" : "warm"];
  for (const [kind, number] of Object.entries(groups)) {
    await counts(page.locator(`#first-chart .dot-${kind}`), number);
  }
});

test("the list of parked conversations is the engine's and pin and drop reach it", async () => {
  const rows = page.locator("#parked tbody tr");
  await eventually(() => cellsOf(rows), (cells) => {
    for (const [i, entry] of PARKED.entries()) {
      assert.match(cells[i][0], new RegExp(`^Chat ${entry.conv}`));
      assert.deepEqual(cells[i].slice(1, 4), [count(entry.tokens), `${entry.bytes / MIB} MiB`, `${entry.unique_bytes / MIB} MiB`]);
      assert.deepEqual(cells[i].slice(5, 7), [count(entry.hits), "no"]);
    }
  });
  await rows.first().getByRole("button", { name: /^Pin/ }).click();
  await rows.first().getByRole("button", { name: /^Unpin/ }).waitFor();
  await rows.first().getByRole("button", { name: /^Unpin/ }).click();
  await rows.first().getByRole("button", { name: /^Pin/ }).waitFor();
  await rows.first().getByRole("button", { name: /^Drop/ }).click();
  await page.locator("#ask-yes").click();
  await shows(rows, new RegExp(`^Chat ${PARKED[1].conv}`));
  await shows(at("parked-note"), "");
});

test("the totals are the day's sums", async () => {
  for (const words of [`Requests${DAY.length}`, `Prompt tokens${count(sum(DAY, "prompt"))}`, `of them reused${count(sum(DAY, "reused"))}`, "Engine starts2"]) {
    await shows(at("totals"), new RegExp(words));
  }
});

test("the day ends without a fault of the page", async () => {
  assert.deepEqual(faults.filter((fault) => !/503|Failed to load resource/.test(fault)), []);
});
