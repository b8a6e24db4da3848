// Takes the pictures of web/screenshots: the real engine with the demo model, a few questions, then a long prompt.
//   STRATA_BIN_DIR=build/bin node tests/web/page/screenshots.mjs
import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";

import { ask, openPage, startBrowser, startServer, stateIs } from "./server.mjs";

const FOLDER = resolve(import.meta.dirname, "../../../web/screenshots");
const LOOKS = [
  ["light", { width: 1440, height: 900 }, "light"], ["dark", { width: 1440, height: 900 }, "dark"], ["narrow", { width: 360, height: 740 }, "light"],
];
const QUESTIONS = ["What is an otter?", "What is 12 plus 30?", "My cat is called Mira. What is my cat called?", "Tell me a short story about a fox called Mira."];

/** A prompt that takes the demo model some seconds to read; a second one waits behind it. */
function longPrompts(page) {
  return page.evaluate(() => {
    const content = Array.from({ length: 1200 }, (_, i) => `My cat number ${i} is called Mira.`).join(" ");
    window.leave = new AbortController();
    for (let i = 0; i < 2; ++i) {
      fetch("/v1/chat/completions", {
        method: "POST", headers: { "content-type": "application/json" }, signal: window.leave.signal,
        body: JSON.stringify({ messages: [{ role: "user", content }], max_tokens: 8 }),
      }).catch(() => {});
    }
  });
}

async function picture(page, view, name) {
  await page.screenshot({ path: join(FOLDER, `${view}-${name}.png`) });
}

mkdirSync(FOLDER, { recursive: true });
const server = await startServer(["--ui-dir", resolve(FOLDER, "..")]);
const browser = await startBrowser();
const { page } = await openPage(browser, server.address, { viewport: LOOKS[0][1] });
for (const question of QUESTIONS) await ask(page, question);
await page.selectOption("#effort", "medium");
await ask(page, "What is 23 times 4?");
for (const [name, viewport, colorScheme] of LOOKS) {
  await page.setViewportSize(viewport);
  await page.emulateMedia({ colorScheme });
  await page.click("#tab-about");
  await picture(page, "about", name);
  await page.click("#tab-chat");
  await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
  await picture(page, "chat", name);
  await page.click("#tab-monitor");
  await page.evaluate(() => scrollTo(0, 0));
  await stateIs(page, "ready");
  await longPrompts(page);
  await page.waitForFunction(() => /^Reading the prompt: .*\(([5-9]|[1-9]\d) %\).*left$/.test(document.getElementById("now-words").textContent));
  await picture(page, "monitor", name);
  await page.evaluate(() => window.leave.abort());
}
await browser.close();
await server.stop();
