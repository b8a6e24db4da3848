// Protects the page when something breaks: the server is killed in the middle of an answer, the engine dies, a request
// is refused, the answer is stopped. What was written stays, the error stands in its place, Retry works.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { answering, idsOf, longText } from "./fake.mjs";
import { ask, openPage, startBrowser, startServer, startWithFake, stateIs, stopAll } from "./server.mjs";
import { appears, counts, disappears, eventually, keepsAnswered, keptChats, shows } from "./waits.mjs";

let browser;

before(async () => { browser = await startBrowser(); });
after(async () => {
  await browser?.close();
  stopAll();
});

const LONG_MS = 240_000; // of the longest answer in a slow page
const SLOW = ["--tokens-per-second 20", `--answer ids:${idsOf("word ").join(",")}`];

/** Sends and waits for the first words. */
async function begin(page, text) {
  await page.fill("#question", text);
  await page.press("#question", "Enter");
  await shows(page.locator("#messages li.assistant:last-child .text"), /word/);
  return page.locator("#messages li.assistant").last();
}

test("the server is killed in the middle of an answer and Retry works when it is back", async () => {
  const server = await startWithFake({ args: SLOW });
  const { page, context } = await openPage(browser, server.address);
  const answer = await begin(page, "Hello!");
  server.child.removeAllListeners("exit");
  server.child.kill("SIGKILL");
  await shows(answer.locator(".error"), /the connection ended before the answer did/);
  await shows(answer.locator(".text"), /^word/);
  await stateIs(page, "no connection");
  await eventually(() => page.title(), (title) => assert.match(title, /^no connection/));
  await answer.getByRole("button", { name: "Retry" }).click();
  await shows(page.locator("#messages .error"), /cannot be reached/);

  const port = new URL(server.address).port;
  const again = await startServer(["--port", port]);
  await stateIs(page, "ready");
  await page.getByRole("button", { name: "Retry" }).click();
  await page.locator("#messages li.assistant .facts").waitFor();
  await counts(page.locator("#messages li.assistant .error"), 0);
  await counts(page.locator("#messages li"), 2);
  await context.close();
  await again.stop();
  await server.stop();
});

test("the engine dies in the middle of an answer and the page says what comes next", async () => {
  const word = idsOf("word ").map((id) => `line T ${id} id=$ID`);
  const script = ["load", "ready", "on 1", "await", "line RESUME 0 id=$ID source=cold", ...word, "sleep 700", "die KILL", "end",
    ...answering("whole")];
  const server = await startWithFake({ script });
  const { page, faults, context } = await openPage(browser, server.address, { viewport: { width: 1280, height: 800 } });
  const answer = await begin(page, "Hello!");
  await shows(answer.locator(".error"), /send .*again/i);
  await shows(answer.locator(".text"), /^\s*word\s*$/);
  await answer.getByRole("button", { name: "Retry" }).click();
  await page.locator("#messages li.assistant .facts").waitFor();
  await shows(page.locator("#messages li.assistant .text"), "whole");
  await page.click("#tab-monitor");
  await shows(page.locator("#errors"), /signal 9|SIGKILL|killed/i);
  await page.locator("#requests tr.request.failed").first().waitFor();
  assert.deepEqual(faults, []);
  await context.close();
  await server.stop();
});

test("an engine that does not start is explained", async () => {
  const server = await startWithFake({ script: ["err the weights are gone", "exit 3"], awaitReady: false });
  const { page, context } = await openPage(browser, server.address, { hash: "#monitor" });
  await stateIs(page, "failed");
  await shows(page.locator("#now-words"), /^The engine does not start: .+/);
  await page.locator("#state.bad").waitFor();
  await page.click("#tab-chat");
  const answer = await ask(page, "Hello!");
  await shows(answer.locator(".error"), /the engine does not start/);
  await context.close();
  await server.stop();
});

test("stop and Esc end a running answer and the next one works", async () => {
  const server = await startWithFake({ args: SLOW });
  const { page, faults, context } = await openPage(browser, server.address);
  const first = await begin(page, "Hello!");
  await page.click("#stop");
  await shows(first.locator(".facts"), /stopped/);
  const second = await begin(page, "Again!");
  await page.keyboard.press("Escape");
  await shows(second.locator(".facts"), /stopped/);
  await shows(second.locator(".text"), /^word/);
  await disappears(page.locator("#stop"));
  await stateIs(page, "ready");
  assert.deepEqual(faults, []);
  await context.close();
  await server.stop();
});

test("an answer whose page was left says so and Retry writes it again", async () => {
  const server = await startWithFake({ args: SLOW });
  const { page, faults, context } = await openPage(browser, server.address);
  await begin(page, "Hello!");
  await eventually(() => keptChats(page), (chats) => assert.equal(chats.length, 1));
  await page.reload();
  await shows(page.locator("#messages .error"), /^This answer is not whole: .*its page was left/);
  await page.getByRole("button", { name: "Retry" }).click();
  await shows(page.locator("#messages li.assistant .text"), /word/);
  await page.click("#stop");
  await shows(page.locator("#messages li.assistant .facts"), /stopped/);
  await keepsAnswered(page, 1);
  await page.reload();
  await shows(page.locator("#messages li.assistant .facts"), /stopped/);
  await counts(page.locator("#messages .error"), 0);
  assert.deepEqual(faults, []);
  await context.close();
  await server.stop();
});

test("earlier messages are shown while an answer goes on", async () => {
  const server = await startWithFake({ args: SLOW });
  const { page, faults, context } = await openPage(browser, server.address, { viewport: { width: 1280, height: 800 } });
  const messages = Array.from({ length: 100 }, (_, i) => ({ role: i % 2 ? "assistant" : "user", content: `message ${i}` }));
  const file = JSON.stringify({ kind: "strata-chats", version: 1, conversations: [{ messages }] });
  await page.setInputFiles("#chats-file", { name: "c.json", mimeType: "application/json", buffer: Buffer.from(file) });
  await page.locator("#chats .open").click();
  await page.locator("#earlier").waitFor();
  const answer = await begin(page, "Hello!");
  await page.click("#earlier");
  await counts(page.locator("#messages > li"), 102);
  await counts(answer.locator(".actions"), 0);
  const length = async () => (await answer.locator(".text").textContent()).length;
  const before = await length();
  await eventually(length, (now) => assert.ok(now > before + 20, `${now} characters after ${before}`));
  await page.click("#stop");
  await shows(answer.locator(".facts"), /stopped/);
  await counts(page.locator("#messages > li"), 102);
  assert.deepEqual(faults, []);
  await context.close();
  await server.stop();
});

test("the page follows a streaming answer only while its reader is at the end", async () => {
  const args = ["--tokens-per-second 400", "--max-context 100000", `--answer ids:${idsOf("line of text\n\n").join(",")}`];
  const server = await startWithFake({ args });
  const { page, faults, context } = await openPage(browser, server.address, { viewport: { width: 800, height: 500 } });
  await stateIs(page, "ready");
  await shows(page.locator("#model"), "demo"); // the header is whole
  const headerHeight = () => page.evaluate(() => document.querySelector("header").offsetHeight);
  const whenReady = await headerHeight();
  await page.fill("#question", "Hello!");
  await page.press("#question", "Enter");
  const height = () => page.evaluate(() => document.documentElement.scrollHeight);
  const longer = (least) => eventually(height, (now) => assert.ok(now > least, `${now} pixels, not ${least}`));
  const atEnd = () => eventually(() => page.evaluate(() => document.documentElement.scrollHeight - innerHeight - scrollY),
    (under) => assert.ok(under <= 100, `${under} pixels under the window`));
  await longer(1200);
  await atEnd();
  // What counts is the text under the reader's eyes: something above it may grow, and the browser then scrolls along.
  const topOfAnswer = () => page.evaluate(() => document.querySelector("#messages li.assistant").getBoundingClientRect().top);
  await page.evaluate(() => scrollTo(0, 100));
  const top = await topOfAnswer();
  await longer(200 + await height());
  await stateIs(page, /^answering, /);
  assert.ok(Math.abs(await topOfAnswer() - top) < 5, `the reader was moved: ${await topOfAnswer()}, not ${top}`);
  assert.equal(await headerHeight(), whenReady, "the state's words changed the header's height");
  await page.click("#to-end");
  await atEnd();
  await longer(200 + await height());
  await atEnd();
  await page.click("#stop");
  await disappears(page.locator("#stop"));
  assert.deepEqual(faults, []);
  await context.close();
  await server.stop();
});

test("an answer of a quarter of a million characters stays bounded and the page alive", async () => {
  const ids = longText(250_000);
  const args = [`--answer ids:${ids.slice(0, 22).join(",")}`, `--answer-tokens ${ids.length}`, "--tokens-per-second 8000", "--max-context 100000"];
  const server = await startWithFake({ args });
  const { page, faults, context } = await openPage(browser, server.address);
  await page.fill("#question", "Hello!");
  await page.press("#question", "Enter");
  const answer = page.locator("#messages li.assistant").first();
  await page.waitForFunction(() => document.querySelector("#messages li.assistant .text").textContent.length > 20_000);
  await page.click("#tab-about"); // the page still listens while the answer grows
  await appears(page.locator("#about"));
  await page.click("#tab-chat");
  await answer.locator(".actions").waitFor({ timeout: LONG_MS });
  assert.equal(await answer.locator(".error").count(), 0);
  const shown = (await answer.locator(".text").textContent()).length;
  assert.ok(shown > 150_000 && shown < 210_000, `${shown} characters`);
  await shows(answer.locator(".rest"), /… and [\d,]+ more characters/);
  await answer.getByRole("button", { name: "Show all" }).click();
  await eventually(async () => (await answer.locator(".text").textContent()).length, (all) => assert.ok(all > 230_000, `${all} characters`));
  assert.deepEqual(faults, []);
  await context.close();
  await server.stop();
});

test("a server with a key asks for it in the page", async () => {
  const server = await startServer(["--api-key", "secret-of-the-test"], { awaitReady: false });
  const { page, context } = await openPage(browser, server.address);
  await appears(page.locator("#key-form"));
  // A question that was asked without the key and is answered after it was given brings the form not back.
  const keyless = [];
  await page.route("**/metrics", (route) => (route.request().headers().authorization ? route.continue() : keyless.push(route)));
  await eventually(() => keyless.length, (count) => assert.equal(count, 1));
  await page.fill("#key", "secret-of-the-test");
  await page.press("#key", "Enter");
  await disappears(page.locator("#key-form"));
  await keyless[0].continue();
  await stateIs(page, "ready");
  await disappears(page.locator("#key-form"));
  const answer = await ask(page, "What is an otter?");
  await shows(answer.locator(".text"), /^Otter/);
  await context.close();
  await server.stop();
});
