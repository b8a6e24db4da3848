// Protects access to the page: WCAG rules by axe in both themes, contrast, keyboard alone, narrow screens, reduced
// motion, forced colours, print, and the tree that a screen reader gets (goldens).
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { answering } from "./fake.mjs";
import { addPage, ask, noSideScroll, openPage, startBrowser, startWithFake, stateIs, stopAll } from "./server.mjs";
import { appears, becomes, disappears, eventually, keepsAnswered, shows } from "./waits.mjs";

const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
const VIEWS = ["chat", "monitor", "about"];
const RICH = "# Head\n\nSome *words* with `code` and [a link](https://example.org/).\n\n- one\n- two\n\n> said\n\n" +
  "```js\nlet answer = 42;\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n";
const GOLDEN = join(import.meta.dirname, "golden");
const ARTEFACTS = process.env.STRATA_ARTEFACTS;
let server;
let browser;

before(async () => {
  server = await startRich(20);
  browser = await startBrowser();
});

after(async () => {
  await browser?.close();
  stopAll();
});

/** A server that answers so many requests with the same rich text. @param {number} count */
function startRich(count) {
  const script = ["load", "ready", ...Array(count).fill(0).flatMap(() => answering(RICH, { reused: 40, read: 8 }))];
  return startWithFake({ script });
}

/** A page with something in every view. */
async function filledPage(options, address = server.address) {
  const opened = await openPage(browser, address, options);
  await ask(opened.page, "Show me everything");
  await stateIs(opened.page, "ready");
  await opened.page.locator("#requests tr.request").first().waitFor({ state: "attached" });
  return opened;
}

async function show(page, view) {
  await page.click(`#tab-${view}`);
  await appears(page.locator(`#${view}`));
}

test("axe finds nothing in any view in light and dark and narrow", async () => {
  for (const [colorScheme, width] of [["light", 1440], ["dark", 1440], ["light", 360], ["dark", 320]]) {
    const { page, context } = await filledPage({ colorScheme, viewport: { width, height: 800 }, bypassCSP: true });
    await page.addScriptTag({ path: AXE });
    for (const view of VIEWS) {
      await show(page, view);
      if (view === "monitor") {
        const toggle = page.locator("#requests .toggle").first();
        if (await toggle.getAttribute("aria-expanded") === "false") await toggle.click();
        await appears(page.locator("#requests .detail").first());
      }
      // Where a reader of the newest message is; what lies half under the field is no target there.
      if (view === "chat") await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
      const found = await page.evaluate((values) => globalThis.axe.run(document, { runOnly: { type: "tag", values } }), RULES);
      const words = found.violations.map((each) => `${each.id}: ${each.nodes.map((node) => node.html).join(" ")}`);
      assert.deepEqual(words, [], `${view} ${colorScheme} ${width}`);
      assert.ok(found.passes.some((each) => each.id === "color-contrast"), "contrast was looked at");
    }
    await context.close();
  }
});

test("at 360 and 320 pixels nothing scrolls sideways and the words are there", async () => {
  for (const width of [360, 320]) {
    const { page, faults, context } = await filledPage({ viewport: { width, height: 740 }, hasTouch: true });
    for (const view of VIEWS) {
      await show(page, view);
      const side = await noSideScroll(page);
      assert.ok(side.fits, `${view} ${side.widths}`);
    }
    await show(page, "monitor");
    for (const head of ["What the engine is doing", "Writing speed (decode)", "Context fill", "Recent requests", "Last errors"]) {
      await appears(page.getByRole("heading", { name: head, exact: true }));
    }
    // Targets of fingers have at least 24 pixels.
    const small = await page.evaluate(() => [...document.querySelectorAll("button, select, input, summary")]
      .filter((node) => node.checkVisibility() && !node.classList.contains("hidden"))
      .map((node) => [node.textContent, node.getBoundingClientRect()])
      .filter(([, box]) => box.height < 24 || box.width < 24).map(([text]) => text));
    assert.deepEqual(small, []);
    assert.deepEqual(faults, []);
    await context.close();
  }
});

test("the whole page is used by keyboard alone", async () => {
  const { page, faults, context } = await openPage(browser, server.address, { viewport: { width: 1280, height: 800 } });
  const focus = () => page.evaluate(() => document.activeElement?.id || document.activeElement?.textContent?.trim() || "");
  const focusIs = (wanted) => (wanted instanceof RegExp ? eventually(focus, (found) => assert.match(found, wanted)) : becomes(focus, wanted));
  const tabTo = async (wanted) => {
    for (let i = 0; i < 60; ++i) {
      if (await focus() === wanted) return;
      await page.keyboard.press("Tab");
    }
    assert.fail(`Tab does not reach ${wanted}`);
  };
  await page.keyboard.press("Tab");
  await focusIs("Skip to the content");
  await tabTo("tab-chat");
  await tabTo("question");
  await page.keyboard.type("Show me everything");
  await page.keyboard.press("Enter");
  await page.locator("#messages li.assistant .actions").waitFor();
  await focusIs("question");
  await page.keyboard.press("Shift+Tab");
  await focusIs(/^Copy/);
  await becomes(() => page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), "solid");
  await keepsAnswered(page, 1);
  await focusIs(/^Copy/);

  await page.evaluate(() => document.getElementById("tab-chat").focus());
  await page.keyboard.press("ArrowRight");
  await focusIs("tab-monitor");
  await becomes(() => page.url(), `${server.address}/#monitor`);
  await page.keyboard.press("End");
  await focusIs("tab-about");
  await page.keyboard.press("ArrowRight");
  await focusIs("tab-chat");
  await appears(page.locator("#chat"));

  await page.locator("#chats-clear:enabled").waitFor();
  await tabTo("chats-clear");
  await page.keyboard.press("Enter");
  await focusIs("ask-no");
  await page.keyboard.press("Escape");
  await focusIs("chats-clear");
  assert.deepEqual(faults, []);
  await context.close();
});

test("reduced motion stops what moves and forced colours keep bars and lines visible", async () => {
  const { page, context } = await filledPage({ reducedMotion: "reduce", viewport: { width: 1280, height: 800 } });
  await show(page, "monitor");
  const moving = await page.evaluate(() => [...document.querySelectorAll("*")]
    .filter((node) => /[1-9]/.test(getComputedStyle(node).transitionDuration) || getComputedStyle(node).animationName !== "none").length);
  assert.equal(moving, 0);
  await context.close();

  const forced = await filledPage({ forcedColors: "active", colorScheme: "dark", viewport: { width: 1280, height: 800 } });
  await show(forced.page, "monitor");
  await eventually(() => forced.page.evaluate(() => {
    const of = (selector, name) => getComputedStyle(document.querySelector(selector))[name];
    return {
      canvas: of("body", "backgroundColor"), bar: of("#context-fill", "backgroundColor"), line: of("#wrote-chart .line", "stroke"),
      part: of("#ram-stack .part-engine", "fill"),
    };
  }), (colors) => {
    for (const name of ["bar", "line", "part"]) assert.notEqual(colors[name], colors.canvas, name);
  });
  await forced.context.close();
});

test("print shows the conversation without its controls", async () => {
  const { page, context } = await filledPage({ viewport: { width: 1280, height: 800 } });
  await page.emulateMedia({ media: "print" });
  for (const id of ["compose", "tabs", "chats-box"]) await disappears(page.locator(`#${id}`));
  await appears(page.locator("#messages .text").last());
  await context.close();
});

test("the theme is chosen by hand and kept before the first paint", async () => {
  const { page, context } = await openPage(browser, server.address, { colorScheme: "light" });
  const paper = (tab) => tab.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await paper(page);
  await page.selectOption("#theme", "dark");
  const dark = await eventually(() => paper(page), (found) => assert.notEqual(found, light));
  const other = await addPage(context, server.address);
  await becomes(() => paper(other.page), dark);
  await becomes(() => other.page.inputValue("#theme"), "dark");
  await page.selectOption("#theme", "auto");
  await becomes(() => paper(page), light);
  await context.close();
});

test("a screen reader gets the same tree as ever", async () => {
  const own = await startRich(1);
  const { page, context } = await filledPage({ viewport: { width: 1280, height: 800 } }, own.address);
  await page.route("**/metrics", async (route) => {
    const metrics = await (await route.fetch()).json();
    metrics.hardware = { cpu: { share: 0.5, threads: 2 }, ram: { total_bytes: 8e9, available_bytes: 4e9, engine_bytes: 1e9 }, gpu: null };
    await route.fulfill({ json: metrics });
  });
  await shows(page.locator("#cpu-words"), "50 %");
  for (const view of VIEWS) {
    await show(page, view);
    const tree = async () => `${(await page.locator("body").ariaSnapshot())
      .replace(/http:\/\/127\.0\.0\.1:\d+/g, "ADDRESS").replace(/\d[\d,.]*/g, "#").replace(/(# min )?# (ms|s)\b/g, "# s")}\n`;
    const path = join(GOLDEN, `${view}.yml`);
    if (process.env.STRATA_GOLDEN === "write") {
      mkdirSync(GOLDEN, { recursive: true });
      writeFileSync(path, await tree());
    }
    const wanted = readFileSync(path, "utf8");
    await eventually(tree, (found) => assert.equal(found, wanted, `${view}: STRATA_GOLDEN=write writes it anew\n${found}`));
  }
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await context.close();
  await own.stop();
});

test("pictures of every view are kept as artefacts", { skip: !ARTEFACTS }, async () => {
  mkdirSync(ARTEFACTS, { recursive: true });
  for (const [name, options] of [
    ["light", { colorScheme: "light", viewport: { width: 1440, height: 900 } }],
    ["dark", { colorScheme: "dark", viewport: { width: 1440, height: 900 } }],
    ["narrow", { colorScheme: "light", viewport: { width: 360, height: 740 } }],
  ]) {
    const { page, context } = await filledPage(options);
    for (const view of VIEWS) {
      await show(page, view);
      await page.screenshot({ path: join(ARTEFACTS, `${view}-${name}.png`) });
    }
    await context.close();
  }
});
