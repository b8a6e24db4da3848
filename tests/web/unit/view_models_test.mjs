// Protects the pure middle of the page: unknown is "–", never 0; words and shares come from given numbers.
import assert from "node:assert/strict";
import { test } from "node:test";

import {
  UNKNOWN, contextModel, duration, gib, machineModel, nowModel, number, pill, requestModel, sparkModel, speedModel,
  tokensPerSecond,
} from "../../../web/js/view_models.js";

test("unknown values are a dash and never zero", () => {
  for (const value of [null, undefined, NaN]) assert.equal(number(value), UNKNOWN);
  assert.equal(gib(null), UNKNOWN);
  assert.equal(duration(undefined), UNKNOWN);
  assert.equal(tokensPerSecond(10, 0), UNKNOWN);
  assert.equal(tokensPerSecond(null, 5), UNKNOWN);
  assert.equal(number(0), "0");
});

test("each state has its pill and only failed is bad", () => {
  assert.deepEqual(pill({ state: "idle" }), { text: "ready", bad: false });
  assert.deepEqual(pill({ state: "generating" }), { text: "answering", bad: false });
  assert.deepEqual(pill({ state: "failed" }), { text: "failed", bad: true });
  assert.deepEqual(pill({ state: "a later state" }), { text: UNKNOWN, bad: false });
});

test("reading says how far and generating how much", () => {
  const reading = nowModel({
    state: "reading", queued: 2, prompt_tokens: 48000, prompt_read: 12288, generated: 0, max_tokens: 512, elapsed_s: 3.1,
  });
  assert.equal(reading.words, "reading the prompt 12,288/48,000, 3.1 s");
  assert.equal(reading.share, 12288 / 48000);
  assert.equal(reading.queue, "2 waiting");
  const writing = nowModel({
    state: "generating", queued: 0, prompt_tokens: 10, prompt_read: 10, generated: 214, max_tokens: 0, elapsed_s: 1,
  });
  assert.equal(writing.words, "answering, 214 tokens, 1.0 s");
  assert.equal(writing.share, null);
  assert.equal(writing.queue, "");
});

test("loading shows progress and a failed engine says why", () => {
  const loading = nowModel({ state: "loading", phase: "loading the model", load_progress: 0.42, eta_s: 12, queued: 0 });
  assert.equal(loading.words, "loading the model, 12 s left");
  assert.equal(loading.share, 0.42);
  const failed = nowModel({ state: "failed", phase: "the engine does not start", failure: "exit 3: not a GGUF", queued: 0 });
  assert.equal(failed.words, "exit 3: not a GGUF");
});

test("the speeds come from the newest request that has them", () => {
  const rows = [
    { prompt_read: 0, prompt_ms: 3, output_tokens: 1, decode_ms: 0 },
    { prompt_read: 1000, prompt_ms: 250, output_tokens: 200, decode_ms: 400 },
    { prompt_read: 1, prompt_ms: 1, output_tokens: 2, decode_ms: 1 },
  ];
  assert.deepEqual(speedModel(rows), { read: "4,000 tok/s", wrote: "500 tok/s" });
  assert.deepEqual(speedModel([]), { read: UNKNOWN, wrote: UNKNOWN });
});

test("a sparkline has one point a second and a summary in words", () => {
  const samples = Array.from({ length: 60 }, (_, i) => ({ read_tokens: i === 59 ? 40 : 0, written_tokens: 0 }));
  const model = sparkModel(samples, "read_tokens");
  const points = model.points.split(" ");
  assert.equal(points.length, 60);
  assert.equal(points[0], "0,19.00");
  assert.equal(points[59], "59,1.00");
  assert.equal(model.summary, "last minute, at most 40 tokens in a second");
  assert.equal(sparkModel(samples, "written_tokens").summary, "nothing in the last minute");
});

test("the context is unknown until the engine says its size", () => {
  assert.equal(contextModel({ engine: { context: null }, live: { state: "idle" }, requests: [] }).words, UNKNOWN);
  const metrics = {
    engine: { context: 32768 }, live: { state: "idle" }, requests: [{ prompt_tokens: 1000, output_tokens: 24 }],
  };
  assert.deepEqual(contextModel(metrics), { words: "1,024 of 32,768 tokens", share: 1024 / 32768 });
});

test("a machine without readings shows dashes", () => {
  assert.deepEqual(machineModel({ cpu: null, ram: null, gpu: null }).map((pair) => pair[1]), Array(4).fill(UNKNOWN));
});

test("a request without a done line shows dashes and its end", () => {
  const cells = Object.fromEntries(requestModel({ time: 0, finish: "error", ttft_ms: null }));
  assert.equal(cells.Prompt, UNKNOWN);
  assert.equal(cells.Speed, UNKNOWN);
  assert.equal(cells["First token"], UNKNOWN);
  assert.equal(cells.End, "error");
});
