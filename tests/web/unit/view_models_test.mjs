// Protects the pure middle of the monitor: unknown is "–", never 0; words and shares come from given numbers.
import assert from "node:assert/strict";
import { test } from "node:test";

import { aboutFacts } from "../../../web/js/about_facts.js";
import { firstTokenModel, firstTokenTable } from "../../../web/js/first_token.js";
import {
  UNKNOWN, clock, counted, duration, byteSize, magnitude, number, percent, rate, span, tokensPerSecond,
} from "../../../web/js/format.js";
import {
  contextModel, cpuModel, errorsModel, gpuModel, gpusOf, lastSpeeds, reuseModel, speedModel, speedSummary,
  speedTable, totalsModel, withBreaks,
} from "../../../web/js/view_models.js";

const GIB = 2 ** 30;
const LIVE = { state: "idle", queued: 0, prompt_tokens: 0, generated: 0 };

test("unknown values are a dash and never zero", () => {
  const words = [number, byteSize, percent, rate, duration, span, clock, magnitude];
  for (const word of words) for (const value of [null, undefined, NaN]) assert.equal(word(value), UNKNOWN, word.name);
  assert.equal(tokensPerSecond(10, 0), UNKNOWN);
  assert.equal(tokensPerSecond(null, 5), UNKNOWN);
  assert.equal(number(0), "0");
  assert.equal(percent(0), "0 %");
});

test("numbers read well", () => {
  assert.equal(counted(1, "token"), "1 token");
  assert.equal(counted(2500, "token"), "2,500 tokens");
  assert.equal(byteSize(400_000), "391 KiB");
  assert.equal(byteSize(48 * 2 ** 20), "48 MiB");
  assert.equal(byteSize(7.5 * GIB), "7.5 GiB");
  assert.equal(rate(3.14), "3.1 tok/s");
  assert.equal(rate(31.4), "31 tok/s");
  assert.deepEqual([duration(999), duration(1500), duration(61_000)], ["999 ms", "1.5 s", "1 min 01 s"]);
  assert.deepEqual([span(59.4), span(60), span(3725)], ["59 s", "1 min 00 s", "1 h 02 min"]);
  assert.deepEqual([magnitude(950), magnitude(7_600_000_000)], ["950", "7.6 B"]);
});

test("the last speeds come from the newest request that has them", () => {
  const rows = [
    { prompt_read: 0, prompt_ms: 3, output_tokens: 1, decode_ms: 0 },
    { prompt_read: 1000, prompt_ms: 250, output_tokens: 200, decode_ms: 400 },
    { prompt_read: 1, prompt_ms: 1, output_tokens: 2, decode_ms: 1 },
  ];
  assert.deepEqual(lastSpeeds(rows), { read: "4,000 tok/s", wrote: "500 tok/s" });
  assert.deepEqual(lastSpeeds([]), { read: UNKNOWN, wrote: UNKNOWN });
});

test("a speed says whether it is now or of the last request", () => {
  const row = { prompt_read: 1000, prompt_ms: 250, output_tokens: 200, decode_ms: 400 };
  const metrics = { live: { ...LIVE, state: "generating", tok_s: 31 }, requests: [row], speed: { read: [0, 9, 1], written: [1, 2, 3] } };
  assert.deepEqual(speedModel(metrics), { read: "4,000 tok/s", readWhen: "last prompt", wrote: "31 tok/s", wroteWhen: "now" });
  metrics.live = { ...LIVE, state: "reading" };
  assert.deepEqual([speedModel(metrics).read, speedModel(metrics).readWhen], ["9.0 tok/s", "now"]);
  const fresh = speedModel({ live: LIVE, requests: [] });
  assert.deepEqual(fresh, { read: UNKNOWN, readWhen: "no prompt yet", wrote: UNKNOWN, wroteWhen: "no answer yet" });
});

test("the summary of a line says its window and sum", () => {
  assert.equal(speedSummary(Array(300).fill(0), "read"), "last 5 minutes: nothing read");
  assert.equal(speedSummary([...Array(298).fill(0), 40, 2], "written"), "last 5 minutes: 42 tokens written, at most 40 in one second");
});

test("another engine breaks the line", () => {
  assert.deepEqual(withBreaks([1, 2, 3], 102, [101, 50, 200]), [1, null, 3]);
  assert.deepEqual(withBreaks([1, 2, 3], 102, []), [1, 2, 3]);
});

test("the table of the speeds has the sums of the line", () => {
  const read = Array.from({ length: 300 }, (_, i) => i);
  const rows = speedTable({ read, written: Array(300).fill(1) });
  assert.equal(rows.length, 10);
  assert.deepEqual(rows[0], ["30 s to 0 s ago", number(read.slice(270).reduce((a, b) => a + b)), "30"]);
  assert.equal(rows[9][0], "5 min 00 s to 4 min 30 s ago");
});

test("the context is unknown until the engine says its size", () => {
  assert.equal(contextModel({ engine: { context: null }, live: LIVE, requests: [] }).words, UNKNOWN);
  // A row of an engine that is gone says nothing of this one's context.
  const metrics = { engine: { context: 32768 }, live: { ...LIVE, context_tokens: null }, requests: [{ prompt_tokens: 1000, output_tokens: 24 }] };
  assert.deepEqual(contextModel(metrics), { words: "0 of 32,768 tokens", share: 0, detail: "no conversation yet" });
  metrics.live = { ...LIVE, context_tokens: 1024 };
  assert.deepEqual(contextModel(metrics), { words: "1,024 of 32,768 tokens", share: 1024 / 32768, detail: "3 % full, the last conversation" });
  metrics.live = { ...LIVE, state: "generating", prompt_tokens: 30000, generated: 68, context_tokens: 30068 };
  assert.equal(contextModel(metrics).words, "30,068 of 32,768 tokens");
});

test("without the cache the share of reuse is the server's sums divided", () => {
  const metrics = { totals: { prompt_tokens: 400, reused_tokens: 90 }, conversation_cache: { enabled: false } };
  assert.deepEqual(reuseModel(metrics), {
    words: "23 %", share: 90 / 400, detail: "90 of 400 prompt tokens were not read again (since the server started)",
  });
  metrics.conversation_cache = { enabled: false, rows: 2, prompt_tokens: 100, reused_tokens: 50 };
  assert.equal(reuseModel(metrics).detail, "50 of 100 prompt tokens were not read again (last 2 requests)");
  assert.equal(reuseModel({}).words, UNKNOWN);
  assert.equal(reuseModel({ totals: { prompt_tokens: 0, reused_tokens: 0 } }).words, UNKNOWN);
});

test("a machine without readings shows dashes", () => {
  assert.equal(cpuModel({ cpu: null, ram: null, gpu: null }).words, UNKNOWN);
  assert.deepEqual(gpusOf({ cpu: null, ram: null, gpu: null }), []);
});

test("a GPU shows what it says and dashes for the rest", () => {
  const gpu = { name: "H", memory_total_bytes: 8 * GIB, memory_used_bytes: 2 * GIB, load_share: 0.5, power_watts: 300.4, temperature_c: null };
  assert.deepEqual(gpuModel(gpu), { name: "H", words: "50 % busy", memory: "2.0 GiB of 8.0 GiB", share: 0.25, detail: "300 W, –" });
  const silent = { name: "S", memory_total_bytes: null, memory_used_bytes: null, load_share: null, power_watts: null, temperature_c: null };
  assert.equal(gpuModel(silent).words, "– busy");
  assert.equal(gpuModel(silent).share, 0);
  assert.equal(gpusOf({ cpu: null, ram: null, gpu: gpu }).length, 1);
  assert.equal(gpusOf({ cpu: null, ram: null, gpu: gpu, gpus: [gpu, gpu] }).length, 2);
});

test("errors are the rows that failed and the engine's own", () => {
  const rows = [
    { id: "a", time: 1, finish: "error", failure: "the engine ended" }, { id: "b", time: 2, finish: "stop" },
    { id: "c", time: 3, finish: "cancel", failure: "the client left" }, { id: "d", time: 4, finish: "error" },
  ];
  assert.deepEqual(errorsModel({ requests: rows, engine: { failure: "" } }).map((each) => each.id), ["d", "a"]);
  const failed = (engine) => errorsModel({ requests: rows, engine });
  assert.deepEqual(failed({ failure: "signal 9", failure_time: 2.5 })[1], { time: 2.5, id: "engine", text: "signal 9" });
  assert.deepEqual(failed({ failure: "signal 9" })[0], { time: null, id: "engine", text: "signal 9" });
  // The request whose engine ended says so itself.
  assert.deepEqual(failed({ failure: "the engine ended", failure_time: 0.9 }).map((each) => each.id), ["d", "a"]);
  assert.deepEqual(failed({ failure: "the engine ended", failure_time: 3 }).map((each) => each.id), ["d", "engine", "a"]);
  assert.match(errorsModel({ requests: [rows[3]], engine: {} })[0].text, /no reason/);
  assert.equal(errorsModel({ requests: Array(50).fill(rows[0]), engine: {} }).length, 20);
});

test("totals are counted since the start", () => {
  const pairs = Object.fromEntries(totalsModel({ time: 200, totals: { since: 100, requests: 3 }, engine: { starts: 2 } }));
  assert.equal(pairs["Server runs for"], "1 min 40 s");
  assert.equal(pairs.Requests, "3");
  assert.equal(pairs["Written tokens"], UNKNOWN);
});

test("the facts of a server that says nothing are dashes", () => {
  const pairs = Object.fromEntries(aboutFacts(null, null, "http://h:1"));
  assert.equal(pairs.Address, "http://h:1");
  assert.equal(pairs.Model, UNKNOWN);
  assert.equal(pairs["Checkpoints kept"], UNKNOWN);
  const known = Object.fromEntries(aboutFacts({ id: "m", meta: { n_params: 13_000_000, n_ctx_train: 4096 } }, { engine: { context: 2048 } }, ""));
  assert.equal(known.Parameters, "13.0 M");
  assert.equal(known.Context, "2,048 tokens (trained for 4,096)");
});

test("the time to the first token is placed between powers of ten by its source", () => {
  const rows = [
    { id: "a", ttft_ms: 120, prompt_read: 900, reused: 0, source: "cold", group: "cold" },
    { id: "b", ttft_ms: 30, prompt_read: 12, reused: 800, source: "parked", group: "restored" },
    { id: "c", ttft_ms: 50, prompt_read: 40, reused: 100, source: "root", group: "root" }, { id: "d", ttft_ms: null, prompt_read: 5 },
    { id: "e", ttft_ms: 50, prompt_read: 40, reused: 100 },
  ];
  const model = firstTokenModel(rows);
  assert.deepEqual(model.points.map((point) => point.kind), ["cold", "restored", "root", "unknown"]);
  assert.deepEqual(model.x.map((tick) => tick.text), ["10", "100", "1K"]);
  assert.deepEqual(model.y.map((tick) => tick.text), ["10 ms", "100 ms", "1 s"]);
  assert.equal(model.summary, "4 requests: 1 read from the first token, 1 only its beginning reused, " +
    "1 brought back from memory, 1 from where is not known. Both axes are logarithmic.");
  assert.deepEqual(firstTokenTable(rows).map((row) => row.id), ["a", "b", "c", "e"]);
  assert.equal(firstTokenModel([]).summary, "No request yet.");
});
