// Protects the promise of the conversation cache where its user sees it, on the real engine with the demo model and no
// script: chat A, chat B, back to A, and the monitor shows 3 switches and 1 hit with the responses' own figures; without
// the flag there is no block; when the engine's memory runs short, the page says what was given back.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { ask, openPage, startBrowser, startServer, stopAll } from "./server.mjs";
import { appears, becomes, counts, disappears, eventually, keepsAnswered, listsChats, shows } from "./waits.mjs";

const WIDE = { viewport: { width: 1440, height: 900 } };
const MIB = 2 ** 20;
const BUDGET_MIB = 512;
const SLOTS = 4; // as long as nobody says otherwise
const FLOOR_MIB = 64; // a machine with less room than the usual floor plays this, too
const CACHE = ["--conversation-cache-mib", String(BUDGET_MIB), "--conversation-cache-min-free-mib", String(FLOOR_MIB)];
const A = ["What is an otter?", "What is 12 plus 30?"];
const B = "My cat is called Mira. What is my cat called?";
let browser;

before(async () => { browser = await startBrowser(); });
after(async () => {
  await browser?.close();
  stopAll();
});

const at = (page, id) => page.locator(`#${id}`);
const metricsOf = async (server) => (await fetch(`${server.address}/metrics`)).json();

/** The usage of each answer that this page gets, in the order of their ends. */
function usagesOf(page) {
  const usages = [];
  page.on("response", async (response) => {
    if (!response.url().endsWith("/v1/chat/completions")) return;
    const chunks = (await response.text()).split("\n").filter((line) => line.startsWith("data: {")).map((line) => JSON.parse(line.slice(6)));
    usages.push(chunks.find((chunk) => chunk.usage)?.usage);
  });
  return usages;
}

/** A, B and back to A in the chat view. @returns {Promise<object[]>} the usage of each answer */
async function throughThePage({ page, seen }) {
  const usages = usagesOf(page);
  await ask(page, A[0]);
  await keepsAnswered(page, 1);
  await seen();
  await page.click("#clear");
  await counts(page.locator("#messages > li"), 0);
  await ask(page, B);
  await listsChats(page, 2);
  await seen();
  await page.locator("#chats .open", { hasText: "otter" }).click();
  await shows(page.locator("#messages li.user .text"), A[0]);
  await ask(page, A[1]);
  await eventually(() => usages, (all) => assert.equal(all.length, 3));
  await seen();
  return usages;
}

/** The same over the API, as a client that keeps its own conversations. */
async function throughTheApi({ server, seen }) {
  const usages = [];
  const chats = { a: [], b: [] };
  for (const [messages, content] of [[chats.a, A[0]], [chats.b, B], [chats.a, A[1]]]) {
    messages.push({ role: "user", content });
    const response = await fetch(`${server.address}/v1/chat/completions`, {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ messages, max_tokens: 60 }),
    });
    const answer = await response.json();
    assert.equal(response.status, 200, JSON.stringify(answer));
    messages.push({ role: "assistant", content: answer.choices[0].message.content });
    usages.push(answer.usage);
    await seen();
  }
  return usages;
}

/** What the bars of parked conversations and of their memory say, in words and in pixels. */
function barsOf(page) {
  return page.evaluate(() => {
    const of = (key) => ({
      words: document.getElementById(`cache-${key}-words`).textContent,
      width: Number.parseFloat(document.getElementById(`cache-${key}-fill`).style.width),
    });
    return { rows: document.querySelectorAll("#requests tr.request").length, parked: of("parked"), memory: of("memory") };
  });
}

for (const [name, live] of [["the page", throughThePage], ["the API", throughTheApi]]) {
  test(`chat A and chat B and back to A through ${name} are 3 switches and 1 hit`, async () => {
    const server = await startServer(CACHE);
    const { page, faults, context } = await openPage(browser, server.address, WIDE);
    const moments = [];
    const seen = async () => moments.push(await eventually(() => barsOf(page), ({ rows }) => assert.equal(rows, moments.length + 1)));
    const usages = await live({ page, server, seen });
    const sum = (read) => usages.reduce((total, usage) => total + read(usage), 0);
    const [prompt, reused] = [sum((usage) => usage.prompt_tokens), sum((usage) => usage.prompt_tokens_details.cached_tokens)];
    assert.ok(reused > 0 && reused < prompt, `${reused} of ${prompt}`);

    await page.click("#tab-monitor");
    await appears(at(page, "cache-block"));
    await shows(at(page, "cache-hits-detail"), "1 of 3 switches in 3 requests");
    await shows(at(page, "cache-hits-words"), "33 %");
    await shows(at(page, "cache-reused-detail"), `${reused.toLocaleString("en-US")} of ${prompt.toLocaleString("en-US")} prompt tokens in 3 requests`);
    await shows(at(page, "cache-reused-words"), `${Math.round(reused / prompt * 100)} %`);
    await shows(at(page, "cache-sentence"), /^It works: 1 of 3 switches came back from memory/);
    await becomes(() => page.locator("#requests td.c-reused").allTextContents(),
      usages.map((usage) => usage.prompt_tokens_details.cached_tokens.toLocaleString("en-US")).reverse());

    // After A nothing was parked, then A, then B: the bars moved, and say what the engine's own list says.
    const [first, second, third] = moments;
    assert.deepEqual([first, second, third].map(({ parked }) => parked), [
      { words: `0 of ${SLOTS}`, width: 0 }, { words: `1 of ${SLOTS}`, width: 100 / SLOTS }, { words: `1 of ${SLOTS}`, width: 100 / SLOTS },
    ]);
    assert.deepEqual(first.memory, { words: `0 KiB of ${BUDGET_MIB} MiB`, width: 0 });
    for (const { memory } of [second, third]) assert.ok(memory.width > 0 && !memory.words.startsWith("0 "), JSON.stringify(memory));
    const { conversation_cache: cache } = await metricsOf(server);
    assert.ok(cache.bytes > 0 && cache.bytes <= BUDGET_MIB * MIB, `${cache.bytes} bytes`);
    assert.ok(Math.abs(third.memory.width - 100 * cache.bytes / cache.budget_bytes) < 0.06, `${third.memory.width} % for ${cache.bytes} bytes`);
    await counts(page.locator("#parked tbody tr"), cache.parked);
    await counts(page.locator("#lanes-plot .sign-restore"), 1);
    assert.deepEqual(faults, []);
    await context.close();
    await server.stop();
  });
}

test("without the flag the monitor has no block of the cache", async () => {
  const server = await startServer();
  const { page, faults, context } = await openPage(browser, server.address, WIDE);
  await ask(page, A[0]);
  await page.click("#tab-monitor");
  await appears(at(page, "reuse"));
  await counts(page.locator("#requests tr.request"), 1);
  for (const id of ["cache-block", "lanes", "available", "parked"]) await disappears(at(page, id));
  assert.deepEqual(faults, []);
  await context.close();
  await server.stop();
});

const PROBE_LIMIT_MIB = 2048; // so much, and what is left of it says what the engine needs
const SLACK_MIB = 20; // above the floor with three chats: more than two starts differ by, less than the long prompt takes
// A checkpoint every so many tokens: a long prompt then takes some 60 MiB within seconds, outside of the cache's budget.
const GREEDY = ["--prompt-cache", "64", "--prompt-cache-every", "128"];
// While the prompt is read, or at the next look when all of it is read.
const WHERES = { request: "before an answer began", idle: "while idle" };
const RELEASED = /RAM below the floor: released (\d+) dialogs?, (\d+) MiB \(dropped\) in \d+ ms; (request|idle): (\d+) -> (\d+) MiB available, floor (\d+) MiB \+ \d+; parked=(\d+)/;

/** Three chats, one after the other. @returns {Promise<number>} what is then available of the engine's own limit, in MiB */
async function threeChats(server) {
  for (const topic of ["an otter", "a lighthouse", "a paper boat"]) await say(server, aboutA(topic, 20));
  return (await metricsOf(server)).conversation_cache.available_bytes / MIB;
}

const aboutA = (topic, sentences) => `A story about ${topic}. ${`It was a day like no other, and ${topic} was there. `.repeat(sentences)}`;

async function say(server, content) {
  const response = await fetch(`${server.address}/v1/chat/completions`, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ messages: [{ role: "user", content }], max_tokens: 8 }),
  });
  assert.equal(response.status, 200, await response.text());
}

test("when the engine runs short of memory the page says what was given back and why a chat is read again", async (t) => {
  const probe = await startServer([...CACHE, ...GREEDY, "--memory-limit-mib", String(PROBE_LIMIT_MIB)]);
  const needed = PROBE_LIMIT_MIB - await threeChats(probe);
  const { hardware } = await metricsOf(probe);
  await probe.stop();
  if (hardware.ram.available_bytes < PROBE_LIMIT_MIB * MIB) return t.skip("this machine has less memory than the probe's limit");

  const limit = Math.ceil(needed) + FLOOR_MIB + SLACK_MIB;
  const server = await startServer([...CACHE, ...GREEDY, "--memory-limit-mib", String(limit)]);
  const { page, faults, context } = await openPage(browser, server.address, { ...WIDE, hash: "#monitor" });
  const available = await threeChats(server);
  assert.ok(available > FLOOR_MIB, `${available} MiB of ${limit}`);
  await shows(at(page, "cache-parked-words"), `2 of ${SLOTS}`);
  await counts(page.locator("#parked tbody tr"), 2);
  await appears(at(page, "pressure-empty"));
  await counts(page.locator("#pressures li"), 0);

  await say(server, aboutA("the old railway", 550));
  const [, dialogs, mib, where, from, to, floor, parked] = await eventually(() => server.log().match(RELEASED), (found) => assert.ok(found, server.log()));
  assert.deepEqual([dialogs, floor, parked], ["3", String(FLOOR_MIB), "0"]);
  const words = page.locator("#pressures li, #pressures-more li");
  await eventually(() => words.allTextContents(), (found) => assert.match(found.at(-1),
    new RegExp(`Released 3 conversations, ${mib} MiB in [\\d.]+ ms, ${WHERES[where]}: ${from} → ${to} MiB available, floor ${floor} MiB, .*; 0 still parked`)));
  await disappears(at(page, "pressure-empty"));
  await shows(at(page, "cache-parked-words"), `0 of ${SLOTS}`);
  await shows(at(page, "cache-memory-detail"), /released 3,/);
  await counts(page.locator("#parked tbody tr"), 0);
  await counts(page.locator("#lanes-plot .sign-release"), 3);

  await say(server, aboutA("an otter", 20));
  await shows(at(page, "cache-sentence"), /The last miss: it was released when the machine was short of memory\.$/);
  assert.deepEqual(faults, []);
  await context.close();
  await server.stop();
});
