// Protects the monitor's view of the conversation cache in a real browser, on the documents that server and page agree
// on: hidden, shown, unknown, unloaded; hints by keyboard; every picture as a table; drop and pin; loading by hand.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { fixture, serveDocuments } from "./fixtures.mjs";
import { noSideScroll, openPage, startBrowser, startWithFake, stopAll } from "./server.mjs";

const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
const KEYS = ["reused", "hits", "parked", "memory"];
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

/** A monitor that shows these documents. */
async function monitor(documents, options = WIDE) {
  const opened = await openPage(browser, server.address, options);
  await serveDocuments(opened.page, documents);
  await opened.page.click("#tab-monitor");
  await opened.page.waitForFunction((time) => document.getElementById("requests-summary").textContent.includes("request") &&
    document.getElementById("ram-words").textContent.includes(time), documents.metrics.hardware.ram ? "free of 15.6" : "");
  return opened;
}

const golden = () => ({ metrics: fixture("golden"), list: fixture("cache_list") });
const textOf = (page, id) => page.locator(`#${id}`).textContent();
const wordsOf = (page) => Promise.all(KEYS.map((key) => textOf(page, `cache-${key}-words`)));
const becomes = (page, id, text) => page.waitForFunction(([name, wanted]) => document.getElementById(name).textContent === wanted, [id, text]);

test("the bars are hidden without the cache and the plain share of reuse is there instead", async () => {
  const documents = golden();
  documents.metrics.conversation_cache.enabled = false;
  const { page, faults, context } = await monitor(documents);
  for (const id of ["cache-block", "lanes", "available", "parked"]) assert.ok(await page.locator(`#${id}`).isHidden(), id);
  assert.ok(await page.locator("#reuse").isVisible());
  documents.metrics = fixture("golden");
  await page.locator("#cache-block").waitFor();
  for (const id of ["lanes", "available", "parked"]) await page.locator(`#${id}`).waitFor();
  assert.ok(await page.locator("#reuse").isHidden());
  assert.deepEqual(faults, []);
  await context.close();
});

test("the four bars say their numbers and their window", async () => {
  const { page, faults, context } = await monitor(golden());
  assert.deepEqual(await wordsOf(page), ["44 %", "20 %", "1 of 4", "80 MiB of 512 MiB"]);
  assert.equal(await textOf(page, "cache-reused-head"), "Prompt reused (last 20)");
  assert.equal(await textOf(page, "cache-hits-head"), "Hits on switches (last 20)");
  assert.equal(await textOf(page, "cache-reused-detail"), "2,790 of 6,300 prompt tokens in 6 requests");
  assert.equal(await textOf(page, "cache-hits-detail"), "1 of 5 switches in 6 requests");
  const widths = await page.evaluate((keys) => keys.map((key) => document.getElementById(`cache-${key}-fill`).style.width), KEYS);
  assert.deepEqual(widths, ["44.3%", "20%", "25%", "15.6%"]);
  assert.match(await textOf(page, "cache-restart"), /^The engine restarted among these requests/);
  assert.equal(await page.locator("#cache-parked-line .line").count(), 2, "a restart breaks the line");
  const under = await page.evaluate(() => document.getElementById("cache-block").getBoundingClientRect().top >=
    document.getElementById("context-detail").getBoundingClientRect().bottom);
  assert.ok(under, "under the context");
  assert.deepEqual(faults, []);
  await context.close();
});

test("unknown is a dash and no switches is said and an unloaded engine has nothing parked", async () => {
  const documents = { metrics: fixture("older_engine"), list: fixture("cache_list") };
  const { page, faults, context } = await monitor(documents);
  assert.deepEqual(await wordsOf(page), ["–", "–", "–", "–"]);
  documents.metrics = fixture("golden");
  Object.assign(documents.metrics.conversation_cache, { switches: 0, hits: 0 });
  await becomes(page, "cache-hits-words", "no switches yet");
  documents.metrics = fixture("unloaded");
  await becomes(page, "cache-parked-words", "–");
  assert.deepEqual(await wordsOf(page), ["44 %", "20 %", "–", "–"]);
  for (const key of ["parked", "memory"]) assert.equal(await textOf(page, `cache-${key}-detail`), "no model is loaded: nothing is parked");
  assert.equal(await textOf(page, "parked-words"), "No model is loaded: nothing is parked.");
  assert.equal(await page.locator("#parked tbody tr").count(), 0);
  assert.equal(await textOf(page, "state-text"), "not loaded");
  assert.deepEqual(faults, []);
  await context.close();
});

test("the hints come by keyboard and by pointer and Esc sends them away", async () => {
  for (const viewport of [WIDE.viewport, { width: 360, height: 740 }]) {
    const { page, context } = await monitor(golden(), { viewport });
    const tip = page.locator("#cache-hits-tip");
    assert.ok(await tip.isHidden());
    await page.locator("#cache-reused .tip-button").focus();
    assert.ok(await page.locator("#cache-reused-tip").isVisible());
    await page.keyboard.press("Tab");
    assert.ok(await tip.isVisible());
    assert.ok(await page.locator("#cache-reused-tip").isHidden());
    assert.match(await tip.textContent(), /A new chat counts as a miss\. Over the newest 20 requests/);
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-describedby")), "cache-hits-tip");
    const box = await tip.boundingBox();
    assert.ok(box.x >= 0 && box.x + box.width <= viewport.width, "inside the screen");
    await page.keyboard.press("Escape");
    assert.ok(await tip.isHidden());
    await page.locator("#cache-memory .tip-button").hover();
    assert.match(await page.locator("#cache-memory-tip").textContent(), /evicted 0, released 2, superseded 1, lost at a switch 0/);
    assert.ok(await page.locator("#cache-memory-tip").isVisible());
    await page.keyboard.press("Escape");
    assert.ok(await page.locator("#cache-memory-tip").isHidden());
    await context.close();
  }
});

test("every picture has a summary and the same as a table", async () => {
  const { page, faults, context } = await monitor(golden());
  for (const name of TOGGLES) {
    const button = page.locator(`#${name}-toggle`);
    assert.equal(await button.textContent(), "Show as table", name);
    await button.press("Enter");
    assert.ok(await page.locator(`#${name}-table table`).isVisible(), name);
    assert.ok(await page.locator(`#${name}-chart`).isHidden(), name);
    assert.equal(await button.textContent(), "Show as chart", name);
  }
  const cells = (name) => page.locator(`#${name}-table tbody tr`).allTextContents();
  assert.equal((await cells("cache")).length, 7); // six requests and a restart
  assert.ok((await cells("lanes")).some((row) => /not parked.*budget/.test(row)));
  assert.ok((await cells("ram")).includes("the cache's budget512 MiB"));
  assert.equal((await cells("first")).length, 5);
  for (const name of TOGGLES) await page.locator(`#${name}-toggle`).press("Enter");
  for (const selector of ["#lanes-plot svg.lanes", "#ram-stack svg", "#ram-budget-stack svg", "#available-chart svg", "#first-chart svg.scatter"]) {
    assert.equal(await page.locator(selector).first().getAttribute("role"), "img", selector);
    assert.ok((await page.locator(selector).first().getAttribute("aria-label")).length > 10, selector);
  }
  assert.match(await textOf(page, "first-summary"), /^5 requests: 3 read from the first token/);
  assert.match(await textOf(page, "lanes-summary"), /^The last 6 requests, one column each, 5 switches/);
  assert.match(await textOf(page, "pressures"), /Released 2 conversations, 2\.1 GiB in 132 ms, while idle/);
  assert.deepEqual(faults, []);
  await context.close();
});

test("a point or a column opens its request with source and reason and differing position", async () => {
  const { page, faults, context } = await monitor(golden());
  await page.locator('#first-chart .point[data-id="req-2"] .reach').click();
  const detail = page.locator("#detail-req-2");
  await detail.waitFor();
  assert.match(await detail.textContent(), /Continued fromthe system prompt and tools/);
  assert.match(await detail.textContent(), /Not reused becausea new conversation/);
  assert.match(await detail.textContent(), /First differing positiontoken 500/);
  assert.equal(await page.evaluate(() => document.activeElement.dataset.id), "req-2");
  await page.locator('#lanes-plot .column[data-id="req-3"] .step-read').click();
  const steps = await page.locator("#detail-req-3 .steps li").allTextContents();
  assert.deepEqual(steps.slice(0, 4), [
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
  await rows.first().waitFor();
  assert.match(await rows.first().textContent(), /^Chat 2: Plan a garden83080 MiB24 MiB1 min 00 s ago1yes/);
  assert.match(await rows.nth(1).textContent(), /^Chat 51,330/, "no words unless the server gives them");
  await page.getByRole("button", { name: "Pin Chat 5" }).click();
  await page.getByRole("button", { name: "Unpin Chat 5" }).waitFor();
  status = 409;
  await page.getByRole("button", { name: /^Drop Chat 2/ }).click();
  await page.locator("#ask-yes").click();
  await becomes(page, "parked-note", "a request runs");
  status = 200;
  await page.getByRole("button", { name: /^Drop Chat 2/ }).click();
  await page.locator("#ask-yes").click();
  await page.waitForFunction(() => document.querySelectorAll("#parked tbody tr").length === 1);
  assert.equal(await textOf(page, "parked-note"), "");
  assert.deepEqual(calls, [["POST", "/cache/4/pin", { pinned: true }], ["DELETE", "/cache/3", null], ["DELETE", "/cache/3", null]]);
  await context.close();
});

test("the model is loaded and unloaded by hand when the server can", async () => {
  const documents = golden();
  delete documents.metrics.live.unload_in_s; // an older server
  const { page, context } = await monitor(documents);
  assert.ok(await page.locator("#engine-unload").isHidden());
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
  assert.match(await textOf(page, "ask-words"), /^Unload the model\? 1 parked conversation and the live one are lost\./);
  await page.locator("#ask-yes").click();
  await becomes(page, "engine-note", "a request runs");
  assert.match(await textOf(page, "now-queue"), /unloaded in 1 min 30 s unless a request comes$/);
  status = 200;
  documents.metrics = fixture("unloaded");
  Object.assign(documents.metrics.live, { unload_in_s: null, phase: "unloaded until a request comes" });
  await page.locator("#engine-load").click();
  assert.equal(await textOf(page, "now-words"), "No model is loaded: the next request loads it");
  assert.deepEqual(calls, ["POST /unload", "POST /load"]);
  await context.close();
});

test("axe finds nothing in the cache's view in light and dark and narrow with every table open", async () => {
  for (const [colorScheme, width] of [["light", 1440], ["dark", 1440], ["light", 360], ["dark", 320]]) {
    const { page, context } = await monitor(golden(), { colorScheme, viewport: { width, height: 800 }, bypassCSP: true });
    await page.locator("#parked tbody tr").first().waitFor();
    await page.addScriptTag({ path: AXE });
    for (const tables of [false, true]) {
      if (tables) for (const name of TOGGLES) await page.locator(`#${name}-toggle`).click();
      await page.locator("#cache-hits .tip-button").focus();
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
  assert.equal(await still.page.evaluate(() => getComputedStyle(document.getElementById("cache-hits-fill")).transitionDuration), "0s");
  await still.context.close();
  const { page, context } = await monitor(golden(), { ...WIDE, forcedColors: "active", colorScheme: "dark" });
  const colors = await page.evaluate(() => {
    const of = (selector, name) => getComputedStyle(document.querySelector(selector))[name];
    return {
      canvas: of("body", "backgroundColor"), bar: of("#cache-hits-fill", "backgroundColor"), line: of("#cache-parked-line .line", "stroke"),
      hit: of("#cache-hits-line .hit", "fill"), miss: of("#cache-hits-line .miss", "stroke"), part: of("#ram-stack .part-parked", "fill"),
      floor: of("#ram-stack .line-floor", "stroke"), dot: of("#first-chart .dot-cold", "stroke"), park: of("#lanes-plot .sign-park", "fill"),
      work: of("#lanes-plot .step-read", "fill"), link: of("#lanes-plot .link-hit", "stroke"),
    };
  });
  for (const [name, color] of Object.entries(colors)) if (name !== "canvas") assert.notEqual(color, colors.canvas, name);
  await context.close();
});

test("labels do not overlap on a narrow screen", async () => {
  const { page, context } = await monitor(golden(), { viewport: { width: 360, height: 740 } });
  const overlaps = await page.evaluate(() => {
    const words = [...document.querySelectorAll("#lanes-names li, .scatter .tick, #cache-block h3, #cache-block p, #cache-block .tip-button, #ram-legend li")]
      .filter((node) => node.checkVisibility() && node.textContent !== "").map((node) => [node.textContent, node.getBoundingClientRect()]);
    const clash = ([, a], [, b]) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
    return words.flatMap((one, i) => words.slice(i + 1).filter((other) => clash(one, other)).map((other) => `${one[0]} / ${other[0]}`));
  });
  assert.deepEqual(overlaps, []);
  await context.close();
});
