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

/** A picture with its name. @param {string} summary @param {number} width @param {number} height @param {string} kind @param {Shape[]} children */
export function drawing(summary, width, height, kind, children) {
  return shape("svg", {
    class: kind, viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": summary,
  }, shape("title", {}, summary), ...children);
}

/** Two decimals at most. @param {number} value */
export function place(value) {
  return String(Math.round(value * 100) / 100);
}

/**
 * A line with its area. A null breaks the line: nothing is known there.
 * @param {(number|null)[]} values oldest first, evenly spaced
 * @param {string} summary the same in words
 * @param {number} [most] what the height stands for; 0: the greatest value
 * @returns {Shape}
 */
export function sparkline(values, summary, most = 0) {
  const shown = values.slice(-POINTS_MAX);
  const top = most || shown.reduce((/** @type {number} */ sofar, value) => Math.max(sofar, value ?? 0), 0) || 1;
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
      shape("path", { class: "line", d: `M${line.join(" L")}${line.length === 1 ? " h0" : ""}`, "vector-effect": "non-scaling-stroke" }),
    );
    from = end;
  }
  return drawing(summary, WIDTH, HEIGHT, "spark", parts);
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
