// Drawings as values: a tree of SVG elements, made from given numbers; dom.js turns it into nodes. Pure. Strokes and
// fills are currentColor or classes, so that themes and forced colours hold.

/** @typedef {import("./types").Shape} Shape */

export const POINTS_MAX = 500;
const WIDTH = 300;
const HEIGHT = 48;

/**
 * @param {string} tag @param {Record<string, string>} [attributes] @param {...(Shape|string)} children
 * @returns {Shape}
 */
export function shape(tag, attributes = {}, ...children) {
  return { tag, attributes, children };
}

/** @param {string} summary @param {number} width @param {number} height @param {string} kind @param {Shape[]} children */
function drawing(summary, width, height, kind, children) {
  return shape("svg", {
    class: kind, viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": summary,
  }, shape("title", {}, summary), ...children);
}

/** Two decimals at most. @param {number} value */
function place(value) {
  return String(Math.round(value * 100) / 100);
}

/**
 * A line with its area. A null breaks the line: nothing is known there.
 * @param {(number|null)[]} values oldest first, evenly spaced
 * @param {string} summary the same in words
 * @returns {Shape}
 */
export function sparkline(values, summary) {
  const shown = values.slice(-POINTS_MAX);
  const top = shown.reduce((/** @type {number} */ most, value) => Math.max(most, value ?? 0), 0) || 1;
  const step = shown.length > 1 ? WIDTH / (shown.length - 1) : 0;
  const x = (/** @type {number} */ i) => place(i * step);
  const y = (/** @type {number} */ value) => place(HEIGHT - 2 - (value / top) * (HEIGHT - 6));
  /** @type {Shape[]} */
  const parts = [];
  for (let from = 0; from < shown.length; ) {
    if (shown[from] === null) {
      ++from;
      continue;
    }
    let end = from;
    while (end < shown.length && shown[end] !== null) ++end;
    const line = [];
    for (let i = from; i < end; ++i) line.push(`${x(i)} ${y(shown[i] ?? 0)}`);
    parts.push(
      shape("path", { class: "area", d: `M${x(from)} ${HEIGHT} L${line.join(" L")} L${x(end - 1)} ${HEIGHT} Z` }),
      shape("path", { class: "line", d: `M${line.join(" L")}`, "vector-effect": "non-scaling-stroke" }),
    );
    from = end;
  }
  return drawing(summary, WIDTH, HEIGHT, "spark", parts);
}

/**
 * Parts of a whole as one bar.
 * @param {{name: string, value: number}[]} parts
 * @param {number} whole
 * @param {string} summary
 * @returns {Shape}
 */
export function stackedBar(parts, whole, summary) {
  let at = 0;
  const bars = parts.map(({ value }, i) => {
    const width = whole > 0 ? Math.max(0, Math.min(WIDTH - at, (value / whole) * WIDTH)) : 0;
    const bar = shape("rect", { class: `part${i}`, x: place(at), y: "0", width: place(width), height: "14" });
    at += width;
    return bar;
  });
  const edges = bars.slice(1).map((bar) =>
    shape("path", { class: "edge", d: `M${bar.attributes.x} 0 V14`, "vector-effect": "non-scaling-stroke" }));
  return drawing(summary, WIDTH, 14, "stack", [...bars, ...edges]);
}

/**
 * One bar for each step of a request, in the order of time.
 * @param {{kind: string, from: number, to: number}[]} steps in ms since its arrival
 * @param {number} whole ms
 * @param {string} summary
 * @returns {Shape}
 */
export function waterfall(steps, whole, summary) {
  const scale = whole > 0 ? WIDTH / whole : 0;
  const bars = steps.map(({ kind, from, to }, i) => shape("rect", {
    class: `step-${kind}`, x: place(from * scale), y: String(i * 12 + 2), width: place(Math.max(1, (to - from) * scale)), height: "8",
  }));
  return drawing(summary, WIDTH, Math.max(1, steps.length) * 12, "waterfall", bars);
}

/** @type {Record<string, (x: string, y: string) => Shape>} */
const MARKS = {
  cold: (x, y) => shape("path", { class: "mark cold", d: `M${x} ${y} m-4 -4 l8 8 m0 -8 l-8 8`, "vector-effect": "non-scaling-stroke" }),
  part: (x, y) => shape("path", { class: "mark part", d: `M${x} ${y} m0 -5 l5 9 h-10 Z` }),
  live: (x, y) => shape("circle", { class: "mark live", cx: x, cy: y, r: "4" }),
};

/**
 * Both axes logarithmic: tokens read against the time to the first token, a shape for each kind.
 * @param {{x: number, y: number, kind: string}[]} points
 * @param {{x: [number, number], y: [number, number]}} range
 * @param {string} summary
 * @returns {Shape}
 */
export function scatter(points, range, summary) {
  const at = (/** @type {number} */ value, /** @type {[number, number]} */ [least, most], /** @type {number} */ length) => {
    const part = (Math.log10(Math.max(value, least)) - Math.log10(least)) / (Math.log10(most) - Math.log10(least));
    return Math.min(1, Math.max(0, part)) * length;
  };
  const width = WIDTH;
  const height = 140;
  const marks = points.slice(0, POINTS_MAX).map(({ x, y, kind }) =>
    (MARKS[kind] ?? MARKS.live)(place(8 + at(x, range.x, width - 16)), place(height - 8 - at(y, range.y, height - 16))));
  const axes = shape("path", { class: "axis", d: `M1 1 V${height - 1} H${width - 1}`, "vector-effect": "non-scaling-stroke" });
  const chart = drawing(summary, width, height, "scatter", [axes, ...marks]);
  chart.attributes.preserveAspectRatio = "xMidYMid meet";
  return chart;
}
