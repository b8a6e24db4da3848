// Protects the words for what the engine does: pill, title and sentence of each state, progress and time left.
import assert from "node:assert/strict";
import { test } from "node:test";

import { UNKNOWN } from "../../../web/js/format.js";
import { favicon, pill, progressOf, queueWords, sentence, spokenState } from "../../../web/js/state_words.js";

const LIVE = {
  state: "idle", queued: 0, phase: "waiting for a request", prompt_tokens: 0, prompt_read: 0, generated: 0, max_tokens: 0,
  elapsed_s: 0, load_progress: null, eta_s: null, failure: "", tok_s: 0,
};
const READING = { ...LIVE, state: "reading", prompt_tokens: 48000, prompt_read: 12000, elapsed_s: 4, eta_s: 11.6 };
const WRITING = { ...LIVE, state: "generating", prompt_tokens: 10, generated: 214, max_tokens: 512, elapsed_s: 7, tok_s: 31 };

test("each state has its words and only failed and no connection are bad", () => {
  assert.deepEqual(pill(LIVE), { text: "ready", mark: "ring", bad: false });
  assert.deepEqual(pill(READING), { text: "reading 25 %, 12 s left", mark: "half", bad: false });
  assert.deepEqual(pill(WRITING), { text: "answering, 214 tokens", mark: "full", bad: false });
  assert.deepEqual(pill({ ...LIVE, state: "failed" }), { text: "failed", mark: "cross", bad: true });
  assert.deepEqual(pill({ ...LIVE, state: "unloaded" }), { text: "not loaded", mark: "ring", bad: false });
  assert.deepEqual(pill({ ...LIVE, state: "a later state" }), { text: UNKNOWN, mark: "ring", bad: false });
  assert.deepEqual(pill(null), { text: "no connection", mark: "cross", bad: true });
});

test("reading says how far and how long", () => {
  assert.equal(sentence(READING), "Reading the prompt: 12,000 of 48,000 tokens (25 %), for 4 s, about 12 s left");
  assert.equal(progressOf(READING), 0.25);
  assert.equal(sentence({ ...READING, eta_s: null }), "Reading the prompt: 12,000 of 48,000 tokens (25 %), for 4 s");
  assert.equal(progressOf({ ...READING, prompt_tokens: 0 }), 0);
});

test("writing says how much and how fast and no time that nobody knows", () => {
  assert.equal(sentence(WRITING), "Answering: 214 of at most 512 tokens at 31 tok/s, for 7 s, at most 10 s left");
  assert.equal(sentence({ ...WRITING, max_tokens: 32000 }), "Answering: 214 of at most 32,000 tokens at 31 tok/s, for 7 s");
  assert.equal(sentence({ ...WRITING, max_tokens: 0, tok_s: null }), "Answering: 214 tokens, for 7 s");
  assert.equal(progressOf(WRITING), null);
});

test("loading shows progress and a restart says why", () => {
  const loading = { ...LIVE, state: "loading", phase: "loading the model", load_progress: 0.42, eta_s: 75 };
  assert.equal(sentence(loading), "Loading the model (42 %), about 1 min 15 s left");
  assert.deepEqual(pill(loading), { text: "loading 42 %, 1 min 15 s left", mark: "bars", bad: false });
  const again = { ...LIVE, state: "loading", phase: "restarting the engine", failure: "signal 9", eta_s: 5 };
  assert.equal(sentence(again), "Restarting the engine, about 5 s left. It ended: signal 9");
  assert.equal(pill(again).text, "restarting, 5 s left");
});

test("a failed engine says its reason", () => {
  assert.equal(sentence({ ...LIVE, state: "failed", failure: "exit 3: not a GGUF" }), "The engine does not start: exit 3: not a GGUF");
  assert.match(sentence({ ...LIVE, state: "failed" }), /no reason is known/);
});

test("what is spoken has no running numbers", () => {
  for (const live of [LIVE, READING, WRITING, null]) assert.doesNotMatch(spokenState(live), /\d/);
});

test("the queue is counted in words", () => {
  assert.equal(queueWords(LIVE), "Nobody is waiting");
  assert.equal(queueWords({ ...LIVE, queued: 1 }), "1 request waiting");
  assert.equal(queueWords({ ...LIVE, queued: 1200 }), "1,200 requests waiting");
});

test("each mark has a favicon of its own shape", () => {
  const icons = ["ring", "half", "full", "bars", "cross"].map((mark) => decodeURIComponent(favicon(mark)).replace(/#[0-9a-f]{6}/g, ""));
  assert.equal(new Set(icons).size, 5);
  for (const icon of icons) assert.match(icon, /^data:image\/svg\+xml,<svg /);
});
