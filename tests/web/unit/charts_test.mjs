// Protects the drawings as values: points where the numbers say, breaks where nothing is known, bounds on their number.
import assert from "node:assert/strict";
import { test } from "node:test";

import { POINTS_MAX, scatter, sparkline, stackedBar, waterfall } from "../../../web/js/charts.js";

const parts = (drawing, tag) => drawing.children.filter((child) => child.tag === tag);

test("a line goes from edge to edge and its summary is its name", () => {
  const drawing = sparkline([0, 5, 10], "in words");
  assert.equal(drawing.attributes.role, "img");
  assert.equal(drawing.attributes["aria-label"], "in words");
  assert.deepEqual(drawing.children[0], { tag: "title", attributes: {}, children: ["in words"] });
  assert.equal(drawing.children[2].attributes.d, "M0 46 L150 25 L300 4");
});

test("a line without work lies on the ground", () => {
  assert.equal(sparkline([0, 0], "").children[2].attributes.d, "M0 46 L300 46");
});

test("an unknown point breaks the line", () => {
  const lines = parts(sparkline([1, null, 1, 1], ""), "path").filter((path) => path.attributes.class === "line");
  assert.deepEqual(lines.map((line) => line.attributes.d), ["M0 4", "M200 4 L300 4"]);
});

test("at most 500 points are drawn and they are the newest", () => {
  const drawing = sparkline([...Array(1000).fill(0), 1], "");
  const points = drawing.children[2].attributes.d.split("L");
  assert.equal(points.length, POINTS_MAX);
  assert.match(points.at(-1), /^300 4$/);
});

test("a bar's parts lie one behind the other inside the whole", () => {
  const drawing = stackedBar([{ name: "a", value: 1 }, { name: "b", value: 1 }, { name: "c", value: 9 }], 4, "");
  const bars = parts(drawing, "rect").map(({ attributes }) => [Number(attributes.x), Number(attributes.width)]);
  assert.deepEqual(bars, [[0, 75], [75, 75], [150, 150]]);
  assert.deepEqual(parts(stackedBar([{ name: "a", value: 1 }], 0, ""), "rect")[0].attributes.width, "0");
});

test("the steps of a request are one below the other on one scale", () => {
  const drawing = waterfall([{ kind: "read", from: 0, to: 100 }, { kind: "write", from: 100, to: 400 }], 400, "");
  assert.deepEqual(parts(drawing, "rect").map(({ attributes }) => [attributes.x, attributes.width, attributes.y]),
    [["0", "75", "2"], ["75", "225", "14"]]);
});

test("points on logarithmic axes and a shape for each kind", () => {
  const points = [{ x: 1, y: 10, kind: "cold" }, { x: 100, y: 1000, kind: "live" }, { x: 10, y: 100, kind: "part" }];
  const drawing = scatter(points, { x: [1, 100], y: [10, 1000] }, "");
  const dot = parts(drawing, "circle")[0].attributes;
  assert.deepEqual([dot.cx, dot.cy], ["292", "8"]);
  const paths = parts(drawing, "path").map(({ attributes }) => attributes.d);
  assert.ok(paths.some((d) => d.startsWith("M8 132 ")));
  assert.ok(paths.some((d) => d.startsWith("M150 70 ")));
});
