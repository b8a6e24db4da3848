// Protects the drawings as values: points where the numbers say, breaks where nothing is known, bounds on their number.
import assert from "node:assert/strict";
import { test } from "node:test";

import { POINTS_MAX, sparkline, waterfall } from "../../../web/js/charts.js";

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
  assert.deepEqual(lines.map((line) => line.attributes.d), ["M0 4 h0", "M200 4 L300 4"]);
});

test("at most 500 points are drawn and they are the newest", () => {
  const drawing = sparkline([...Array(1000).fill(0), 1], "");
  const points = drawing.children[2].attributes.d.split("L");
  assert.equal(points.length, POINTS_MAX);
  assert.match(points.at(-1), /^300 4$/);
});

test("a line is drawn against what its height stands for", () => {
  assert.equal(sparkline([1, 2], "", 4).children[2].attributes.d, "M0 35.5 L300 25");
});

test("the steps of a request are one below the other on one scale", () => {
  const drawing = waterfall([{ kind: "read", from: 0, to: 100 }, { kind: "write", from: 100, to: 400 }], 400, "");
  assert.deepEqual(parts(drawing, "rect").map(({ attributes }) => [attributes.x, attributes.width, attributes.y]),
    [["0", "75", "2"], ["75", "225", "14"]]);
});
