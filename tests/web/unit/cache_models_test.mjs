// Protects what the monitor says of the conversation cache, on the very documents that the server's tests produce:
// shares are the given sums divided, unknown is "–", a restart breaks the lines, nothing parked is claimed while unloaded.
import assert from "node:assert/strict";
import { test } from "node:test";

import {
  NO_SWITCH, barsModel, barsTable, cacheOf, cacheSentence, restartWords, windowRows,
} from "../../../web/js/cache_models.js";
import { buttonsFor } from "../../../web/js/engine_buttons.js";
import { UNKNOWN } from "../../../web/js/format.js";
import { entryCells, entryName, parkedWords } from "../../../web/js/parked_models.js";
import { queueWords, sentence } from "../../../web/js/state_words.js";
import { fixture } from "./fixtures.mjs";

const bars = (metrics) => Object.fromEntries(barsModel(metrics).map((bar) => [bar.key, bar]));

test("the four bars of a loaded engine are the given numbers", () => {
  const { reused, hits, parked, memory } = bars(fixture("golden"));
  assert.equal(reused.head, "Prompt reused (last 20)");
  assert.equal(reused.words, "44 %"); // 2,790 of 6,300
  assert.equal(reused.share, 2790 / 6300);
  assert.equal(reused.detail, "2,790 of 6,300 prompt tokens in 6 requests");
  assert.deepEqual([hits.head, hits.words, hits.detail], ["Hits on switches (last 20)", "20 %", "1 of 5 switches in 6 requests"]);
  assert.deepEqual([parked.words, parked.share], ["1 of 4", 0.25]);
  assert.deepEqual([memory.words, memory.share], ["80 MiB of 512 MiB", 83886080 / 536870912]);
  assert.equal(memory.detail, "evicted 0, released 2, superseded 1, not parked 0, of them lost at a switch 0");
});

test("every bar says its window and what it is in its hint", () => {
  const { reused, hits, memory } = bars(fixture("golden"));
  for (const bar of [reused, hits]) assert.match(bar.tip, /newest 20 requests that report it/);
  assert.match(hits.tip, /A new chat counts as a miss/);
  assert.match(memory.tip, /evicted 0, released 2, superseded 1, not parked 0, of them lost at a switch 0/);
});

test("another engine breaks the lines and is told", () => {
  const golden = fixture("golden");
  const { reused, hits, parked, memory } = bars(golden);
  assert.deepEqual(parked.line, [0, 1, 1, null, 0, 0, 1]);
  assert.deepEqual(memory.line, [0, 67108864, 75497472, null, 0, 4194304, 83886080]);
  assert.deepEqual(hits.line, [0, 0, 1, null, 0, NO_SWITCH, 0]);
  assert.deepEqual(reused.line, [0, 500 / 900, 1040 / 1100, null, 0, 1250 / 1300, 0]);
  assert.match(restartWords(golden), /^The engine restarted among these requests/);
  assert.equal(barsTable(golden)[3][0], "engine restart");
  golden.requests = golden.requests.filter((row) => row.epoch === 2);
  assert.equal(restartWords(golden), "");
});

test("the window takes only requests that carry the cache's fields", () => {
  const golden = fixture("golden");
  assert.deepEqual(windowRows(golden).map((row) => row.id), ["req-7", "req-6", "req-5", "req-3", "req-2", "req-1"]);
  golden.conversation_cache.window = 2;
  assert.deepEqual(windowRows(golden).map((row) => row.id), ["req-7", "req-6"]);
});

test("an older engine shows dashes and never zero", () => {
  const older = fixture("older_engine");
  for (const bar of barsModel(older)) {
    assert.equal(bar.words, UNKNOWN, bar.key);
    assert.equal(bar.share, 0);
    assert.ok(bar.line.length === 0, bar.key);
  }
  assert.match(cacheSentence(older), /does not report/);
});

test("without a model the present is hidden and the window stays", () => {
  const { reused, hits, parked, memory } = bars(fixture("unloaded"));
  assert.deepEqual([reused.words, hits.words], ["44 %", "20 %"]);
  for (const bar of [parked, memory]) {
    assert.deepEqual([bar.words, bar.share, bar.detail], [UNKNOWN, 0, "no model is loaded: nothing is parked"]);
  }
});

test("no switches is said and is not 0 %", () => {
  const golden = fixture("golden");
  Object.assign(golden.conversation_cache, { switches: 0, hits: 0 });
  assert.equal(bars(golden).hits.words, "no switches yet");
  Object.assign(golden, { requests: [] });
  Object.assign(golden.conversation_cache, { rows: 0, prompt_tokens: 0, reused_tokens: 0, parked: null, bytes: null, as_of: null });
  const fresh = bars(golden);
  assert.deepEqual([fresh.reused.words, fresh.hits.words, fresh.parked.words], [UNKNOWN, "no switches yet", UNKNOWN]);
  assert.equal(fresh.parked.detail, "no request since the engine started");
});

test("without the cache there are no bars", () => {
  const golden = fixture("golden");
  golden.conversation_cache.enabled = false;
  assert.deepEqual([cacheOf(golden), barsModel(golden), cacheSentence(golden)], [null, [], ""]);
  delete golden.conversation_cache;
  assert.equal(cacheOf(golden), null);
});

test("one sentence says whether it works", () => {
  const golden = fixture("golden");
  assert.equal(cacheSentence(golden), "It works: 1 of 5 switches came back from memory instead of being read again. " +
    "The last miss: a new conversation: nothing held shares more than the system prompt.");
  golden.conversation_cache.hits = 0;
  assert.match(cacheSentence(golden), /^None of 5 switches came back/);
});

test("a parked conversation shows its words only when the server gives them", () => {
  const list = fixture("cache_list");
  assert.deepEqual(list.entries.map(entryName), ["Chat 2: Plan a garden", "Chat 5"]);
  assert.deepEqual(entryCells(list.entries[0]), ["Chat 2: Plan a garden", "830", "80 MiB", "24 MiB", "1 min 00 s ago", "1", "yes"]);
  assert.match(parkedWords(list, fixture("golden")), /^2 conversations, 1 pinned\./);
  assert.match(parkedWords(list, fixture("unloaded")), /^No model is loaded/);
  assert.match(parkedWords({ enabled: true, entries: [] }, fixture("golden")), /^Nothing is parked/);
});

test("the buttons of loading are there when the server can and it makes sense", () => {
  const live = (more) => ({ live: { ...fixture("golden").live, ...more } });
  assert.deepEqual(buttonsFor(live({ unload_in_s: undefined })), { load: false, unload: false });
  assert.deepEqual(buttonsFor(live({ unload_in_s: null })), { load: false, unload: true });
  assert.deepEqual(buttonsFor(live({ unload_in_s: null, state: "unloaded", phase: "unloading the model" })), { load: false, unload: false });
  assert.deepEqual(buttonsFor(live({ unload_in_s: null, state: "unloaded", phase: "unloaded until a request comes" })), { load: true, unload: false });
  assert.deepEqual(buttonsFor(live({ unload_in_s: null, state: "loading" })), { load: false, unload: false });
});

test("the words of an engine that goes and comes", () => {
  const live = (more) => ({ ...fixture("golden").live, ...more });
  assert.equal(sentence(live({ state: "unloaded", phase: "unloaded until a request comes" })), "No model is loaded: the next request loads it");
  assert.equal(sentence(live({ state: "unloaded", phase: "unloading the model" })), "Unloading the model");
  assert.equal(sentence(live({ state: "unloaded", phase: "stopped" })), "No model is loaded");
  assert.match(sentence(live({ state: "unloaded", phase: "unloaded until a request comes", failure: "no memory" })), /refused: no memory$/);
  assert.match(sentence(live({ state: "loading", phase: "preparing the load" })), /^Preparing the load/);
  assert.equal(queueWords(live({ unload_in_s: 90 })), "Nobody is waiting. The model is unloaded in 1 min 30 s unless a request comes");
});
