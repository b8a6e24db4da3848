// Protects the monitor's view of the conversation cache in a real browser, on the documents that server and page agree
// on: hidden, shown, unknown, unloaded; hints by keyboard; every picture as a table; drop and pin; loading by hand.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { fixture, serveDocuments } from "./fixtures.mjs";
import { noSideScroll, openPage, startBrowser, startWithFake, stopAll } from "./server.mjs";
import { appears, becomes, counts, disappears, eventually, hasAttribute, shows } from "./waits.mjs";

const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
const KEYS = ["reused", "hits", "parked", "memory"];
const BLOCKS = ["cache-block", "lanes", "available", "parked"]; // what is hidden without the cache
const TOGGLES = ["cache", "lanes", "ram", "available", "first"];
const WIDE = { viewport: { width: 1440, height: 900 } };
let browser;
let server;

before(async () => {
  server = await startWithFake({ options: ["--ui-dir", join(import.meta.dirname, "../../../web")] });
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  stopAll();
});

/** A monitor that has never seen anything but these documents, and shows them. */
async function monitor(documents, options = WIDE) {
  const opened = await openPage(browser, server.address, { ...options, prepare: (page) => serveDocuments(page, documents) });
  await opened.page.click("#tab-monitor");
  await shows(at(opened.page, "requests-summary"), /request/);
  return opened;
}

const golden = () => ({ metrics: fixture("golden"), list: fixture("cache_list") });
const at = (page, id) => page.locator(`#${id}`);
const showsWords = (page, wanted) =>
  becomes(() => page.evaluate((keys) => keys.map((key) => document.getElementById(`cache-${key}-words`).textContent), KEYS), wanted);

test("the bars are hidden without the cache and the plain share of reuse is there instead", async () => {
  const documents = golden();
  documents.metrics.conversation_cache.enabled = false;
  const { page, faults, context } = await monitor(documents);
  await appears(at(page, "reuse"));
  for (const id of BLOCKS) await disappears(at(page, id));
  documents.metrics = fixture("golden");
  for (const id of BLOCKS) await appears(at(page, id));
  await disappears(at(page, "reuse"));
  assert.deepEqual(faults, []);
  await context.close();
});

test("the four bars say their numbers and their window", async () => {
  const { page, faults, context } = await monitor(golden());
  await showsWords(page, ["44 %", "20 %", "1 of 4", "80 MiB of 512 MiB"]);
  await shows(at(page, "cache-reused-head"), "Prompt reused (last 20)");
  await shows(at(page, "cache-hits-head"), "Hits on switches (last 20)");
  await shows(at(page, "cache-reused-detail"), "2,790 of 6,300 prompt tokens in 6 requests");
  await shows(at(page, "cache-hits-detail"), "1 of 5 switches in 6 requests");
  await becomes(() => page.evaluate((keys) => keys.map((key) => document.getElementById(`cache-${key}-fill`).style.width), KEYS),
    ["44.3%", "20%", "25%", "15.6%"]);
  await shows(at(page, "cache-restart"), /^The engine restarted among these requests/);
  await counts(page.locator("#cache-parked-line .line"), 2); // a restart breaks the line
  await eventually(() => page.evaluate(() => [
    document.getElementById("context-detail").getBoundingClientRect().bottom, document.getElementById("cache-block").getBoundingClientRect().top,
  ]), ([over, under]) => assert.ok(over <= under, `the cache begins at ${under}, the context ends at ${over}`));
  assert.deepEqual(faults, []);
  await context.close();
});

test("unknown is a dash and no switches is said and an unloaded engine has nothing parked", async () => {
  const documents = { metrics: fixture("older_engine"), list: fixture("cache_list") };
  const { page, faults, context } = await monitor(documents);
  await showsWords(page, ["–", "–", "–", "–"]);
  await shows(at(page, "pressure-empty"), "This engine does not report it.");
  await shows(at(page, "lanes-summary"), "No request has said yet which conversation it belongs to.");
  await shows(at(page, "first-summary"), /^1 request: 1 read from the first token\./);
  documents.metrics = fixture("golden");
  Object.assign(documents.metrics.conversation_cache, { switches: 0, hits: 0 });
  await shows(at(page, "cache-hits-words"), "no switches yet");
  await page.locator("#parked tbody tr").first().waitFor();
  documents.metrics = fixture("unloaded");
  await showsWords(page, ["44 %", "20 %", "–", "–"]);
  for (const key of ["parked", "memory"]) await shows(at(page, `cache-${key}-detail`), "no model is loaded: nothing is parked");
  await shows(at(page, "parked-words"), "No model is loaded: nothing is parked.");
  await counts(page.locator("#parked tbody tr"), 0);
  await shows(at(page, "state-text"), "not loaded");
  assert.deepEqual(faults, []);
  await context.close();
});

test("the hints come by keyboard and by pointer and Esc sends them away", async () => {
  for (const viewport of [WIDE.viewport, { width: 360, height: 740 }]) {
    const { page, context } = await monitor(golden(), { viewport });
    const tip = page.locator("#cache-hits-tip");
    await appears(page.locator("#cache-hits .tip-button"));
    await disappears(tip);
    await page.locator("#cache-reused .tip-button").focus();
    await appears(page.locator("#cache-reused-tip"));
    await page.keyboard.press("Tab");
    await appears(tip);
    await disappears(page.locator("#cache-reused-tip"));
    await shows(tip, /A new chat counts as a miss\. Over the newest 20 requests/);
    await becomes(() => page.evaluate(() => document.activeElement.getAttribute("aria-describedby")), "cache-hits-tip");
    await eventually(() => tip.boundingBox(), (box) =>
      assert.ok(box.x >= 0 && box.x + box.width <= viewport.width, `outside the screen: ${JSON.stringify(box)}`));
    await page.keyboard.press("Escape");
    await disappears(tip);
    await page.locator("#cache-memory .tip-button").hover();
    await appears(page.locator("#cache-memory-tip"));
    await shows(page.locator("#cache-memory-tip"), /evicted 0, released 2, superseded 1, not parked 0, of them lost at a switch 0/);
    await page.keyboard.press("Escape");
    await disappears(page.locator("#cache-memory-tip"));
    await context.close();
  }
});

test("every picture has a summary and the same as a table", async () => {
  const { page, faults, context } = await monitor(golden());
  for (const name of TOGGLES) {
    const button = page.locator(`#${name}-toggle`);
    await shows(button, "Show as table");
    await button.press("Enter");
    await appears(page.locator(`#${name}-table table`));
    await disappears(page.locator(`#${name}-chart`));
    await shows(button, "Show as chart");
  }
  const cells = (name, check) => eventually(() => page.locator(`#${name}-table tbody tr`).allTextContents(), check);
  await cells("cache", (rows) => assert.equal(rows.length, 7, `${rows}`)); // six requests and a restart
  await cells("lanes", (rows) => assert.ok(rows.some((row) => /not parked.*budget/.test(row)), `${rows}`));
  await cells("ram", (rows) => assert.ok(rows.includes("the cache's budget512 MiB"), `${rows}`));
  await cells("first", (rows) => assert.equal(rows.length, 5, `${rows}`));
  for (const name of TOGGLES) await page.locator(`#${name}-toggle`).press("Enter");
  for (const selector of ["#lanes-plot svg.lanes", "#ram-stack svg", "#ram-budget-stack svg", "#available-chart svg", "#first-chart svg.scatter"]) {
    await hasAttribute(page.locator(selector).first(), "role", "img");
    await hasAttribute(page.locator(selector).first(), "aria-label", /.{11}/);
  }
  await shows(at(page, "first-summary"), /^5 requests: 3 read from the first token/);
  await shows(at(page, "lanes-summary"), /^The last 6 requests, one column each, 5 switches/);
  await shows(at(page, "pressures"), /Released 2 conversations, 2\.1 GiB in 132 ms, while idle/);
  assert.deepEqual(faults, []);
  await context.close();
});

test("a point or a column opens its request with source and reason and differing position", async () => {
  const { page, faults, context } = await monitor(golden());
  await page.locator('#first-chart .point[data-id="req-2"] .reach').click();
  const detail = page.locator("#detail-req-2");
  await shows(detail, /Continued fromthe system prompt and tools/);
  await shows(detail, /Not reused becausea new conversation/);
  await shows(detail, /First differing positiontoken 500/);
  await becomes(() => page.evaluate(() => document.activeElement.dataset.id), "req-2");
  await page.locator('#lanes-plot .column[data-id="req-3"] .step-read').click();
  await becomes(async () => (await page.locator("#detail-req-3 .steps li").allTextContents()).slice(0, 4), [
    "waiting in the queue 500 ms", "parking another conversation 25 ms", "restoring this conversation 13 ms", "reading the prompt 70 ms",
  ]);
  await page.locator("#first-toggle").click();
  await page.locator("#first-table tbody button").first().press("Enter");
  await page.locator("#detail-req-7").waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test("a parked conversation is pinned and dropped and a refusal is said in place", async () => {
  const documents = golden();
  const { page, context } = await monitor(documents);
  const calls = [];
  let status = 200;
  await page.route("**/cache/*/pin", (route) => {
    calls.push([route.request().method(), new URL(route.request().url()).pathname, route.request().postDataJSON()]);
    documents.list.entries[1].pinned = true;
    return route.fulfill({ status, json: {} });
  });
  await page.route("**/cache/3", (route) => {
    calls.push([route.request().method(), new URL(route.request().url()).pathname, null]);
    if (status === 200) documents.list.entries.shift();
    return route.fulfill({ status, json: { error: { message: "a request runs" } } });
  });
  const rows = page.locator("#parked tbody tr");
  await shows(rows.first(), /^Chat 2: Plan a garden83080 MiB24 MiB1 min 00 s ago1yes/);
  await shows(rows.nth(1), /^Chat 51,330/); // no words unless the server gives them
  // An age that grows leaves the row and its buttons in their place.
  await rows.first().evaluate((node) => { node.dataset.same = "yes"; });
  documents.list.entries[0].last_used_s = 65;
  await shows(page.locator("#parked tr[data-same]"), /1 min 05 s ago/);
  await page.getByRole("button", { name: "Pin Chat 5" }).click();
  await page.getByRole("button", { name: "Unpin Chat 5" }).waitFor();
  status = 409;
  documents.metrics.live.state = "generating";
  await shows(at(page, "state-text"), /^answering/);
  await page.getByRole("button", { name: /^Drop Chat 2/ }).click();
  await page.locator("#ask-yes").click();
  await shows(at(page, "parked-note"), "a request runs");
  documents.metrics.live.state = "idle";
  await shows(at(page, "parked-note"), "");
  status = 200;
  await page.getByRole("button", { name: /^Drop Chat 2/ }).click();
  await page.locator("#ask-yes").click();
  await counts(rows, 1);
  await shows(at(page, "parked-note"), "");
  // Who works by keyboard goes on where the row was.
  await shows(page.locator("#parked button:focus"), /^Drop Chat 5/);
  documents.list.entries.shift();
  await counts(rows, 0);
  await page.locator("#parked-head:focus").waitFor();
  assert.deepEqual(calls, [["POST", "/cache/4/pin", { pinned: true }], ["DELETE", "/cache/3", null], ["DELETE", "/cache/3", null]]);
  await context.close();
});

test("the model is loaded and unloaded by hand when the server can", async () => {
  const documents = golden();
  delete documents.metrics.live.unload_in_s; // an older server
  const { page, context } = await monitor(documents);
  await appears(at(page, "now-words"));
  await disappears(at(page, "engine-unload"));
  documents.metrics.live.unload_in_s = 90;
  const calls = [];
  let status = 409;
  for (const path of ["/load", "/unload"]) {
    await page.route(`**${path}`, (route) => {
      calls.push(`${route.request().method()} ${path}`);
      return route.fulfill({ status, json: { error: { message: "a request runs" } } });
    });
  }
  await page.locator("#engine-unload").click();
  await shows(at(page, "ask-words"), /^Unload the model\? 1 parked conversation and the live one are lost\./);
  await page.locator("#ask-yes").click();
  await shows(at(page, "engine-note"), "a request runs");
  await shows(at(page, "now-queue"), /unloaded in 1 min 30 s unless a request comes$/);
  status = 200;
  documents.metrics = fixture("unloaded");
  Object.assign(documents.metrics.live, { unload_in_s: null, phase: "unloaded until a request comes" });
  await page.locator("#engine-load").click();
  await shows(at(page, "now-words"), "No model is loaded: the next request loads it");
  await becomes(() => calls, ["POST /unload", "POST /load"]);
  await context.close();
});

test("axe finds nothing in the cache's view in light and dark and narrow with every table open", async () => {
  for (const [colorScheme, width] of [["light", 1440], ["dark", 1440], ["light", 360], ["dark", 320]]) {
    const { page, context } = await monitor(golden(), { colorScheme, viewport: { width, height: 800 }, bypassCSP: true });
    await page.locator("#parked tbody tr").first().waitFor();
    await page.addScriptTag({ path: AXE });
    for (const tables of [false, true]) {
      if (tables) {
        for (const name of TOGGLES) await page.locator(`#${name}-toggle`).click();
        for (const name of TOGGLES) await appears(page.locator(`#${name}-table table`));
      } else {
        await page.locator("#cache-hits .tip-button").focus();
        await appears(page.locator("#cache-hits-tip"));
      }
      const found = await page.evaluate((values) => globalThis.axe.run(document, { runOnly: { type: "tag", values } }), RULES);
      const words = found.violations.map((each) => `${each.id}: ${each.nodes.map((node) => node.html).join(" ")}`);
      assert.deepEqual(words, [], `${colorScheme} ${width} ${tables}`);
      const side = await noSideScroll(page);
      assert.ok(side.fits, `${width} ${side.widths}`);
    }
    await context.close();
  }
});

test("reduced motion stops the bars and forced colours keep the marks visible", async () => {
  const still = await monitor(golden(), { ...WIDE, reducedMotion: "reduce" });
  await becomes(() => still.page.evaluate(() => getComputedStyle(document.getElementById("cache-hits-fill")).transitionDuration), "0s");
  await still.context.close();
  const { page, context } = await monitor(golden(), { ...WIDE, forcedColors: "active", colorScheme: "dark" });
  await eventually(() => page.evaluate(() => {
    const of = (selector, name) => getComputedStyle(document.querySelector(selector))[name];
    return {
      canvas: of("body", "backgroundColor"), bar: of("#cache-hits-fill", "backgroundColor"), line: of("#cache-parked-line .line", "stroke"),
      hit: of("#cache-hits-line .hit", "fill"), miss: of("#cache-hits-line .miss", "stroke"), part: of("#ram-stack .part-parked", "fill"),
      floor: of("#ram-stack .line-floor", "stroke"), dot: of("#first-chart .dot-cold", "stroke"), park: of("#lanes-plot .sign-park", "fill"),
      work: of("#lanes-plot .step-read", "fill"), link: of("#lanes-plot .link-hit", "stroke"),
    };
  }), (colors) => {
    for (const [name, color] of Object.entries(colors)) if (name !== "canvas") assert.notEqual(color, colors.canvas, name);
  });
  await context.close();
});

test("labels do not overlap on a narrow screen", async () => {
  const { page, context } = await monitor(golden(), { viewport: { width: 360, height: 740 } });
  await page.locator("#lanes-names li").first().waitFor();
  await page.locator("#parked tbody tr").first().waitFor();
  const overlaps = await page.evaluate(() => {
    const words = [...document.querySelectorAll("#lanes-names li, .scatter .tick, #cache-block h3, #cache-block p, #cache-block .tip-button, #ram-legend li")]
      .filter((node) => node.checkVisibility() && node.textContent !== "").map((node) => [node.textContent, node.getBoundingClientRect()]);
    const clash = ([, a], [, b]) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
    return words.flatMap((one, i) => words.slice(i + 1).filter((other) => clash(one, other)).map((other) => `${one[0]} / ${other[0]}`));
  });
  assert.deepEqual(overlaps, []);
  await context.close();
});

test("on a narrow screen each bar has the same space to its left and its right", async () => {
  for (const width of [360, 320]) {
    const { page, context } = await monitor(golden(), { viewport: { width, height: 740 } });
    const spaces = await page.evaluate((keys) => keys.map((key) => {
      const tile = document.getElementById(`cache-${key}`).getBoundingClientRect();
      const bar = document.querySelector(`#cache-${key} .bar`).getBoundingClientRect();
      return [key, Math.round((bar.left - tile.left) * 10), Math.round((tile.right - bar.right) * 10)];
    }), KEYS);
    for (const [key, left, right] of spaces) assert.ok(left > 80 && Math.abs(left - right) <= 2, `${key} at ${width}: ${left} and ${right} tenths of a pixel`);
    const lines = await page.locator("#requests .toggle").evaluateAll((all) => all.map((node) => node.getBoundingClientRect().height / Number.parseFloat(getComputedStyle(node).lineHeight)));
    assert.ok(lines.length > 0 && lines.every((height) => height < 2), `the time of a request stands in one line: ${lines}`);
    await context.close();
  }
});
