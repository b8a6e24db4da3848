// Protects the table of requests: order with unknowns last, filter, steps that add up, CSV that is no formula.
import assert from "node:assert/strict";
import { test } from "node:test";

import { UNKNOWN } from "../../../web/js/format.js";
import { COLUMNS, csv, detailOf, endWord, filtered, sorted, stepsOf } from "../../../web/js/request_rows.js";

const DONE = {
  time: 100, id: "aa", finish: "stop", duration_s: 1.5, queue_ms: 100, ttft_ms: 420, prompt_tokens: 900, prompt_read: 100, reused: 800,
  output_tokens: 50, prompt_ms: 300, decode_ms: 1000, park_ms: null, restore_ms: null, source: "turn", miss: "none", switched: false,
};
const FAILED = { time: 101, id: "bb", finish: "error", duration_s: 0.2, queue_ms: 0, ttft_ms: null, failure: "the engine ended" };

test("a request without a done line shows dashes and its end", () => {
  const cells = Object.fromEntries(COLUMNS.map((column) => [column.key, column.text(FAILED)]));
  assert.deepEqual([cells.prompt, cells.speed, cells.first, cells.end], [UNKNOWN, UNKNOWN, UNKNOWN, "error"]);
  assert.equal(COLUMNS[1].text({ ...FAILED, prompt_tokens: 0 }), UNKNOWN);
  assert.equal(endWord({ finish: "cancel" }), "stopped");
  assert.equal(endWord({ finish: "a later word" }), "a later word");
});

test("rows are ordered by any column and what is unknown comes last either way", () => {
  const rows = [{ ...DONE, id: "a", prompt_tokens: 5 }, { ...FAILED, id: "x" }, { ...DONE, id: "b", prompt_tokens: 50 }];
  const ids = (key, ascending) => sorted(rows, key, ascending).map((row) => row.id).join("");
  assert.equal(ids("prompt", true), "abx");
  assert.equal(ids("prompt", false), "bax");
  assert.equal(ids("time", false), "xab");
  assert.equal(rows[0].id, "a");
  assert.equal(ids("end", true), "abx");
});

test("the filter wants every word in a row", () => {
  assert.deepEqual(filtered([DONE, FAILED], "ENGINE bb"), [FAILED]);
  assert.deepEqual(filtered([DONE, FAILED], "turn"), [DONE]);
  assert.deepEqual(filtered([DONE, FAILED], "  "), [DONE, FAILED]);
  assert.deepEqual(filtered([DONE, FAILED], "nowhere"), []);
});

test("the steps of a request follow each other and end with it", () => {
  const steps = stepsOf(DONE);
  assert.deepEqual(steps.map(({ name, from, to }) => [name, from, to]), [
    ["waiting in the queue", 0, 100], ["reading the prompt", 100, 400], ["other, until the first token", 400, 420],
    ["writing the answer", 420, 1420], ["other, until the end", 1420, 1500],
  ]);
  assert.deepEqual(stepsOf(FAILED), [{ kind: "other", name: "other, until the end", from: 0, to: 200 }]);
});

test("the detail says from where a request continued and why not", () => {
  const pairs = Object.fromEntries(detailOf(DONE));
  assert.equal(pairs["Continued from"], "the last turn of this conversation");
  assert.equal(pairs["Reading speed"], "333 tok/s");
  assert.ok(!("Not reused because" in pairs));
  const missed = Object.fromEntries(detailOf({ ...DONE, switched: true, miss: "new", source: "cold" }));
  assert.equal(missed["Not reused because"], "a new conversation: nothing held shares more than the system prompt");
  assert.equal(missed["Changed conversation"], "yes, a miss");
  const back = Object.fromEntries(detailOf({ ...DONE, switched: true, restored: true, source: "parked", common: 1250, passes: 2 }));
  assert.equal(back["Continued from"], "this conversation, parked in memory");
  assert.equal(back["Changed conversation"], "yes, a hit: brought back from memory");
  assert.equal(back["First differing position"], "token 1,250");
  assert.match(back.Passes, /^2: /);
  assert.ok(!("First differing position" in pairs));
  assert.equal(Object.fromEntries(detailOf(FAILED))["What happened"], "the engine ended");
});

test("CSV quotes what needs it and no cell is a formula", () => {
  const text = csv([{ ...FAILED, failure: '=cmd(),"x"\nline', id: "+1" }]);
  const [head, row] = text.split("\r\n");
  assert.ok(head.startsWith("time,id,finish,prompt_tokens"));
  assert.ok(row.startsWith("101,'+1,error,"));
  assert.ok(text.includes(`"'=cmd(),""x""\nline"`));
  assert.equal(csv([]).split("\r\n").length, 2);
});
