// Takes the pictures of web/screenshots: the real engine with the demo model and the conversation cache, a few questions in
// the chat, several conversations in turn over the API, then a long prompt.
//   STRATA_BIN_DIR=build/bin node tests/web/page/screenshots.mjs [monitor]
import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";

import { ask, openPage, startBrowser, startServer, stateIs } from "./server.mjs";

const FOLDER = resolve(import.meta.dirname, "../../../web/screenshots");
const LOOKS = [
  ["light", { width: 1440, height: 900 }, "light"], ["dark", { width: 1440, height: 900 }, "dark"], ["narrow", { width: 360, height: 740 }, "light"],
];
const QUESTIONS = ["What is an otter?", "What is 12 plus 30?", "My cat is called Mira. What is my cat called?", "Tell me a short story about a fox called Mira."];

const TOPICS = ["an otter", "a lighthouse", "the winter garden", "a paper boat", "the old railway"];
// Which conversation speaks when: turns of one, a return after one other, a return after more than the cache holds.
const TURNS = [0, 0, 1, 0, 1, 2, 0, 2, 3, 4, 1, 0, 4, 0];
const CACHE = ["--conversation-cache-mib", "24", "--conversation-cache-slots", "3", "--conversation-cache-min-free-mib", "256"];
const MONITOR_PX = { light: 1660, dark: 1660, narrow: 2300 }; // down to the memory; of the narrow one to the lanes

/** Several people in turn: each turn sends its conversation so far, as chat clients do. */
async function conversations(address) {
  const chats = TOPICS.map((topic) => [{ role: "user", content: `Tell me a story about ${topic}. ${`It was a day like no other, and ${topic} was there. `.repeat(40)}` }]);
  for (const [i, who] of TURNS.entries()) {
    const messages = chats[who];
    const response = await fetch(`${address}/v1/chat/completions`, {
      method: "POST", headers: { "content-type": "application/json" },
      body: JSON.stringify({ messages, max_tokens: 40, temperature: 0 }),
    });
    const answer = await response.json();
    if (!response.ok) throw new Error(JSON.stringify(answer));
    messages.push({ role: "assistant", content: answer.choices[0].message.content }, { role: "user", content: `And then? That is question ${i}.` });
  }
}

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

/** The monitor while a long prompt is read and another request waits. */
async function monitorPicture(page, name, viewport) {
  await page.setViewportSize({ width: viewport.width, height: MONITOR_PX[name] });
  await page.click("#tab-monitor");
  await page.evaluate(() => scrollTo(0, 0));
  await stateIs(page, "ready");
  await longPrompts(page);
  await page.waitForFunction(() => /^Reading the prompt: .*\(([5-9]|[1-9]\d) %\).*left$/.test(document.getElementById("now-words").textContent));
  await picture(page, "monitor", name);
  await page.evaluate(() => window.leave.abort());
}

mkdirSync(FOLDER, { recursive: true });
const only = process.argv[2]; // one view alone
const server = await startServer(["--ui-dir", resolve(FOLDER, ".."), ...CACHE]);
const browser = await startBrowser();
const { page } = await openPage(browser, server.address, { viewport: LOOKS[0][1] });
if (!only) for (const question of QUESTIONS) await ask(page, question);
await page.selectOption("#effort", "medium");
await ask(page, "What is 23 times 4?");
await conversations(server.address);
for (const [name, viewport, colorScheme] of LOOKS) {
  await page.setViewportSize(viewport);
  await page.emulateMedia({ colorScheme });
  if (!only) {
    await page.click("#tab-about");
    await picture(page, "about", name);
    await page.click("#tab-chat");
    await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
    await picture(page, "chat", name);
  }
  await monitorPicture(page, name, viewport);
}
await browser.close();
await server.stop();
