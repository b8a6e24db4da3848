// Protects the pictures of the conversation cache as values: lanes, memory, pressure. Places are checked against the
// numbers of the documents that the server's tests produce.
import assert from "node:assert/strict";
import { test } from "node:test";

import { availableLine, budgetStack, hitStrip, memoryStack } from "../../../web/js/cache_charts.js";
import { NO_SWITCH } from "../../../web/js/cache_models.js";
import { COLUMNS_MAX, LANES_MAX, lanesModel } from "../../../web/js/lanes.js";
import {
  availableModel, availableTable, budgetModel, memoryModel, memoryTable, pressureModel, withReading,
} from "../../../web/js/memory_models.js";
import { lanesChart, scatter } from "../../../web/js/plots.js";
import { fixture } from "./fixtures.mjs";

const MIB = 2 ** 20;

/** Every shape below this one whose class is one of a name's words. */
function classed(drawing, name) {
  const inner = drawing.children.filter((child) => typeof child !== "string").flatMap((child) => classed(child, name));
  return (drawing.attributes.class ?? "").split(" ").includes(name) ? [drawing, ...inner] : inner;
}

test("there is a lane for each conversation of each engine, also for the one that is being read", () => {
  const { lanes, first, last } = lanesModel(fixture("golden"));
  assert.deepEqual(lanes.map(({ key, words, live }) => [key, words, live]), [
    ["1:1", "before the restart", false], ["1:2", "before the restart", false],
    ["2:1", "Plan a garden", false], ["2:2", "", false], ["2:3", "", false], ["2:4", "", true],
  ]);
  assert.ok(first !== last);
  assert.ok(lanesModel(fixture("unloaded")).lanes.every((lane) => !lane.live));
  // Parked, and who comes is not said yet.
  const between = fixture("golden");
  between.conversation_cache.live_conv = null;
  assert.deepEqual(lanesModel(between).lanes.map(({ key, live }) => [key, live]).slice(2), [["2:1", false], ["2:2", false], ["2:3", false]]);
  // A chat that comes back has its lane already.
  between.conversation_cache.live_conv = 1;
  assert.deepEqual(lanesModel(between).lanes.map(({ key, live }) => [key, live]).slice(2), [["2:1", true], ["2:2", false], ["2:3", false]]);
});

test("a column is a request with its switch and the marks of its events", () => {
  const { columns } = lanesModel(fixture("golden"));
  assert.deepEqual(columns.map((column) => column.kind), ["request", "request", "request", "restart", "request", "request", "request", "events"]);
  assert.deepEqual(columns.map((column) => column.from), [null, 0, 1, null, null, null, 2, null]);
  assert.deepEqual(columns.map((column) => column.hit), [false, false, true, false, false, false, false, false]);
  assert.deepEqual(columns[1].marks, [{ lane: 0, kind: "park" }]);
  assert.deepEqual(columns[2].marks, [{ lane: 1, kind: "lost" }, { lane: 0, kind: "restore" }]);
  assert.deepEqual([columns[7].pressure, columns[7].marks], [true, [{ lane: 4, kind: "release" }]]);
  assert.equal(columns[0].reading, 880 / 1980);
  assert.equal(columns[1].reading, (31.5 + 560.5) / (31.5 + 560.5 + 900));
});

test("the lanes have a bound and what is not shown is said", () => {
  const golden = fixture("golden");
  const row = golden.requests[0];
  golden.requests = Array.from({ length: 60 }, (_, i) => ({ ...row, id: `r${i}`, ticket: 100 - i, conv: i % 12, time: row.time - i, began: row.time - i }));
  golden.conversation_cache.window = 500;
  const { lanes, columns, summary } = lanesModel(golden);
  assert.equal(lanes.length, LANES_MAX);
  assert.ok(columns.filter((column) => column.kind === "request").length === COLUMNS_MAX);
  assert.match(summary, /^The last 24 requests, .* older conversations not shown\.$/);
});

test("the lanes say the same in words and in a table", () => {
  const { summary, table } = lanesModel(fixture("golden"));
  assert.equal(summary, "The last 6 requests, one column each, 5 switches; 2 parked, 1 brought back, 1 released, 1 not parked.");
  assert.equal(table.length, 12);
  assert.ok(table.some((row) => row[2] === "not parked" && row[6] === "budget"));
  assert.equal(lanesModel({ ...fixture("golden"), requests: [] }).summary, "No request yet.");
});

test("the picture of the lanes has their bars and links and marks", () => {
  const drawing = lanesChart(lanesModel(fixture("golden")));
  assert.equal(classed(drawing, "lane").length, 6);
  assert.equal(classed(drawing, "step-read").length, 6);
  assert.equal(classed(drawing, "link").length, 3);
  assert.equal(classed(drawing, "link-hit").length, 1);
  for (const [kind, count] of [["park", 2], ["restore", 1], ["release", 1], ["lost", 1], ["pressure", 1], ["restart", 1]]) {
    assert.equal(classed(drawing, `sign-${kind}`).length, count, kind);
  }
});

test("points of the first token lie where their logarithms say and carry their request", () => {
  const point = (x, y, kind, id) => ({ x, y, kind, id, words: "" });
  const ticks = (...values) => values.map((value) => ({ value, text: String(value) }));
  const drawing = scatter({
    points: [point(1, 10, "cold", "a"), point(10, 100, "restored", "b")], x: ticks(1, 10, 100), y: ticks(10, 100, 1000), summary: "s",
  });
  const reach = classed(drawing, "reach").map(({ attributes }) => [attributes.cx, attributes.cy]);
  assert.deepEqual(reach, [["16%", "190"], ["56%", "105"]]);
  assert.deepEqual(classed(drawing, "point").map(({ attributes }) => attributes["data-id"]), ["a", "b"]);
  assert.equal(classed(drawing, "dot-cold").length + classed(drawing, "dot-restored").length, 2);
});

test("hits are tall and misses short and a restart leaves a gap", () => {
  const drawing = hitStrip([1, 0, null, NO_SWITCH], "s");
  assert.deepEqual(drawing.children.slice(1).map(({ attributes }) => [attributes.class, attributes.height, attributes.x]), [
    ["hit", "42", "243"], ["miss", "16", "258"], ["none", "2", "288"],
  ]);
});

test("the parts of the memory are the server's and fill the bar", () => {
  const model = memoryModel(fixture("golden"));
  assert.equal(model.words, "8.8 GiB free of 15.6 GiB");
  assert.deepEqual(model.parts.map((part) => part.key), ["others", "server", "weights", "engine", "active", "checkpoints", "parked", "free"]);
  assert.equal(model.parts.reduce((sum, part) => sum + part.bytes, 0), model.whole);
  const drawing = memoryStack(model);
  const line = (kind) => Number(/^M([\d.]+)/.exec(classed(drawing, `line-${kind}`)[0].attributes.d)[1]);
  const near = (kind, x) => assert.ok(Math.abs(line(kind) - x) < 0.02, `${kind} ${line(kind)} ${x}`);
  near("floor", 300 - 300 * (2684354560 / model.whole));
  near("target", 300 - 300 * (3758096384 / model.whole));
  near("budget", 300 * ((model.cacheFrom + 536870912) / model.whole));
  const last = classed(drawing, "part-free")[0].attributes;
  assert.ok(Math.abs(Number(last.x) + Number(last.width) - 300) < 0.02);
});

test("unknown parts are left out and a machine without readings has a dash", () => {
  const unloaded = memoryModel(fixture("unloaded"));
  assert.deepEqual(unloaded.parts.map((part) => part.key), ["others", "server", "free"]);
  assert.deepEqual(unloaded.lines.map((line) => line.key), ["floor", "target"]);
  assert.equal(memoryModel({ hardware: { ram: null } }).words, "–");
  const plain = { total_bytes: 24, available_bytes: 10, engine_bytes: 20 };
  assert.deepEqual(memoryModel({ hardware: { ram: plain } }).parts.map((part) => part.bytes), [14, 0, 10]);
  const off = fixture("golden");
  off.conversation_cache.enabled = false;
  assert.deepEqual(memoryModel(off).lines, []);
});

test("the budget shows each conversation's own bytes oldest first", () => {
  const golden = fixture("golden");
  const budget = budgetModel(golden, fixture("cache_list"));
  assert.deepEqual(budget.pieces.map((piece) => [piece.name, piece.bytes / MIB]), [["chat 2", 24], ["chat 5", 34]]);
  assert.equal(budget.summary, "In the cache: 80 MiB of 512 MiB; on their own, oldest first: chat 2 24 MiB, chat 5 34 MiB");
  assert.equal(classed(budgetStack(budget), "part-parked").length, 2);
  assert.equal(budgetModel(fixture("unloaded"), null), null);
  assert.equal(budgetModel(fixture("older_engine"), null), null);
  assert.ok(memoryTable(memoryModel(golden), budget).some(([name, size]) => name === "only chat 5" && size === "34 MiB"));
});

test("available memory is a line over its floor that a restart and a pause break", () => {
  const golden = fixture("golden");
  let readings = [];
  const at = (time, epoch, available) => {
    golden.time = time;
    golden.engine.epoch = epoch;
    golden.hardware.ram.available_bytes = available;
    readings = withReading(readings, golden);
  };
  at(100, 1, 4e9);
  at(100, 1, 4e9);
  at(101, 1, 3e9);
  at(102, 2, 5e9);
  at(150, 2, 2e9);
  const model = availableModel(readings, golden);
  assert.deepEqual(model.line, [4e9, 3e9, null, 5e9, null, 2e9]);
  assert.equal(model.low, true);
  assert.match(model.summary, /at least 1\.9 GiB available; the floor is 2\.5 GiB, and memory is below it now/);
  assert.equal(classed(availableLine(model), "band").length, 1);
  assert.equal(availableTable(readings).length, 1);
  for (let i = 0; i < 400; ++i) at(200 + i, 2, 9e9);
  assert.equal(readings.length, 300);
});

test("an event of pressure is told in words", () => {
  const golden = fixture("golden");
  assert.equal(pressureModel(golden)[0].words,
    "Released 2 conversations, 2.1 GiB in 132 ms, while idle: 1,500 → 3,700 MiB available, floor 2,560 MiB, gives back until 3,584 MiB; 1 still parked.");
  const { pressure } = golden.conversation_cache.events[0];
  Object.assign(pressure, { released_dialogs: 0, released_mib: 64, retained_mib: 64, where: "window" });
  assert.match(pressureModel(golden)[0].words, /^Released 64 MiB \(of it 64 MiB kept for the live one\) in 132 ms, while answering: /);
  Object.assign(pressure, { released_mib: 0, retained_mib: 0, exhausted: true });
  assert.match(pressureModel(golden)[0].words, /^Nothing was released, while answering: .* Nothing more could be released\.$/);
});
