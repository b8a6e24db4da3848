// Drawings whose marks and words keep their form at any width: places across are per cent, heights are pixels. The
// scatter of first tokens and the lanes of conversations. Pure.
import { POINTS_MAX, place, shape } from "./charts.js";

/** @typedef {import("./types").Shape} Shape */
/** @typedef {import("./first_token.js").Point} Point */
/** @typedef {import("./lanes.js").Column} Column */

const PLOT_HEIGHT = 220;
const PLOT_TOP = 20;
const PLOT_BOTTOM = 190;
const PLOT_LEFT = 16; // per cent, room for the words at the lines
const PLOT_RIGHT = 96;
export const HEAD_PX = 18; // of the lanes: marks that concern all of them
export const LANE_PX = 36;

/** @type {Record<string, string>} around 0 0, about ten pixels wide */
const FORMS = {
  cold: "M-4 -4 L4 4 M4 -4 L-4 4",
  root: "M0 -5 L5 0 L0 5 L-5 0 Z",
  warm: "M-4.5 0 A4.5 4.5 0 1 0 4.5 0 A4.5 4.5 0 1 0 -4.5 0 Z",
  restored: "M0 -5 L5 4 H-5 Z",
  unknown: "M-4 0 H4",
  park: "M-4.5 -4 H4.5 L0 4.5 Z",
  restore: "M-4.5 4 H4.5 L0 -4.5 Z",
  evict: "M-4 -4 L4 4 M4 -4 L-4 4",
  release: "M-4 -4 H4 V4 H-4 Z",
  lost: "M-4 0 A4 4 0 1 0 4 0 A4 4 0 1 0 -4 0 Z",
  pressure: "M0 -6 L6 5 H-6 Z M0 -2.5 V1.5 M0 2.6 V3.6",
  restart: "M4.2 -2.6 A5 5 0 1 0 5 1 M4.6 -6.4 V-2.4 H0.6",
};

/** A form alone, for a legend. @param {string} kind @param {string} group @returns {Shape} */
export function legendMark(kind, group) {
  return shape("svg", { class: "legend-mark", viewBox: "-8 -8 16 16", width: "16", height: "16", "aria-hidden": "true" },
    shape("path", { class: `${group} ${group}-${kind}`, d: FORMS[kind] ?? FORMS.lost }));
}

/** A form at a place, undistorted. @param {string} kind @param {number} across per cent @param {number} y @param {string} group @param {(Shape|string)[]} more */
function mark(kind, across, y, group, more = []) {
  return shape("svg", { x: `${place(across)}%`, y: place(y), overflow: "visible" },
    shape("path", { class: `${group} ${group}-${kind}`, d: FORMS[kind] ?? FORMS.lost }), ...more);
}

/** @param {string} summary @param {string} kind @param {number} height @param {Shape[]} children @returns {Shape} */
function plot(summary, kind, height, children) {
  return shape("svg", { class: kind, height: String(height), role: "img", "aria-label": summary }, ...children);
}

/** @param {number} value @param {{value: number}[]} ticks powers of ten @param {number} from @param {number} to */
function along(value, ticks, from, to) {
  const low = Math.log10(ticks[0].value);
  const high = Math.log10(ticks[ticks.length - 1].value);
  return from + ((Math.log10(value) - low) / (high - low)) * (to - from);
}

/**
 * Tokens read against the time to the first token, both logarithmic; a form for each source.
 * @param {{points: Point[], x: {value: number, text: string}[], y: {value: number, text: string}[], summary: string}} model
 * @returns {Shape}
 */
export function scatter({ points, x, y, summary }) {
  const across = (/** @type {number} */ value) => along(value, x, PLOT_LEFT, PLOT_RIGHT);
  const up = (/** @type {number} */ value) => along(value, y, PLOT_BOTTOM, PLOT_TOP);
  const rows = y.flatMap(({ value, text }) => [
    shape("line", { class: "grid", x1: "0", x2: "100%", y1: place(up(value)), y2: place(up(value)) }),
    shape("text", { class: "tick", x: "2", y: place(up(value) - 3) }, text),
  ]);
  const columns = x.map(({ value, text }) =>
    shape("text", { class: "tick", x: `${place(across(value))}%`, y: String(PLOT_HEIGHT - 12), "text-anchor": "middle" }, text));
  const marks = points.slice(0, POINTS_MAX).map((point) => shape("g", { class: "point", "data-id": point.id },
    shape("title", {}, point.words),
    mark(point.kind, across(point.x), up(point.y), "dot"),
    shape("circle", { class: "reach", cx: `${place(across(point.x))}%`, cy: place(up(point.y)), r: "12" })));
  return plot(summary, "scatter", points.length > 0 ? PLOT_HEIGHT : 0, [...rows, ...columns, ...marks]);
}

/** The work of one request in its lane: reading, then answering. @param {Column} column @param {number} left @param {number} width @returns {Shape[]} */
function bar(column, left, width) {
  const y = HEAD_PX + column.lane * LANE_PX + 22;
  const inside = width * 0.8;
  const from = left + width * 0.1;
  const read = inside * column.reading;
  const rect = (/** @type {string} */ kind, /** @type {number} */ x, /** @type {number} */ size) =>
    shape("rect", { class: kind, x: `${place(x)}%`, width: `${place(size)}%`, y: String(y), height: "8" });
  return [rect("step-read", from, read), rect("step-write", from + read, inside - read)];
}

/** @param {Column} column @param {number} left @param {number} width per cent @param {number} height @returns {Shape} */
function columnShape(column, left, width, height) {
  const middle = left + width / 2;
  const x = `${place(middle)}%`;
  const laneY = (/** @type {number} */ lane) => HEAD_PX + lane * LANE_PX;
  /** @type {Shape[]} */
  const parts = [shape("title", {}, column.words)];
  if (column.kind === "restart") {
    parts.push(shape("line", { class: "fence", x1: x, x2: x, y1: String(HEAD_PX), y2: String(height) }), mark("restart", middle, 9, "sign"));
  }
  if (column.pressure) {
    parts.push(shape("line", { class: "fence", x1: x, x2: x, y1: String(HEAD_PX), y2: String(height) }), mark("pressure", middle, 9, "sign"));
  }
  if (column.from !== null && column.from >= 0 && column.lane >= 0 && column.from !== column.lane) {
    const edge = `${place(left)}%`;
    const ends = [laneY(column.from) + 26, laneY(column.lane) + 26];
    parts.push(shape("line", { class: `link ${column.hit ? "link-hit" : "link-miss"}`, x1: edge, x2: edge, y1: String(ends[0]), y2: String(ends[1]) }));
  }
  if (column.kind === "request" && column.lane >= 0) parts.push(...bar(column, left, width));
  const seen = new Map();
  for (const { lane, kind } of column.marks) {
    const nth = seen.get(lane) ?? 0;
    seen.set(lane, nth + 1);
    parts.push(mark(kind, middle + nth * width * 0.4, laneY(lane) + 12, "sign"));
  }
  return shape("g", { class: `column ${column.kind}`, "data-id": column.id }, ...parts);
}

/**
 * One lane a conversation, one column a request.
 * @param {{lanes: {live: boolean}[], columns: Column[], summary: string}} model @returns {Shape}
 */
export function lanesChart({ lanes, columns, summary }) {
  const height = HEAD_PX + lanes.length * LANE_PX;
  const width = columns.length > 0 ? 100 / Math.max(columns.length, 8) : 100;
  const grounds = lanes.map((lane, i) => shape("rect", {
    class: lane.live ? "lane live" : "lane", x: "0", width: "100%", y: String(HEAD_PX + i * LANE_PX), height: String(LANE_PX - 2),
  }));
  return plot(summary, "lanes", height, [...grounds, ...columns.map((column, i) => columnShape(column, i * width, width, height))]);
}
