// Drawings of the conversation cache as values: hits and misses, memory as a stack with its lines, available memory
// over its floor. Pure.
import { POINTS_MAX, drawing, place, shape, sparkline } from "./charts.js";

/** @typedef {import("./types").Shape} Shape */
/** @typedef {import("./memory_models.js").Part} Part */

const WIDTH = 300;
const HEIGHT = 48;
const STACK_HEIGHT = 24;
const STRIP_PLACES = 20; // of fewer requests the bars are as wide as those of so many
const SHARP = { "vector-effect": "non-scaling-stroke" };

/**
 * One place a request: a tall bar is a hit, a short open one a miss, a dash no switch; a gap is a restart.
 * @param {(number|null)[]} hits 1, 0, less than 0 or null, oldest first @param {string} summary @returns {Shape}
 */
export function hitStrip(hits, summary) {
  const shown = hits.slice(-POINTS_MAX);
  const step = shown.length > 0 ? WIDTH / Math.max(shown.length, STRIP_PLACES) : WIDTH;
  const width = step * 0.6;
  const start = WIDTH - shown.length * step;
  const marks = shown.flatMap((hit, i) => {
    if (hit === null) return [];
    const size = { x: place(start + i * step + (step - width) / 2), width: place(width) };
    if (hit === 1) return [shape("rect", { class: "hit", ...size, y: "4", height: "42" })];
    if (hit === 0) return [shape("rect", { class: "miss", ...size, y: "30", height: "16", ...SHARP })];
    return [shape("rect", { class: "none", ...size, y: "44", height: "2" })];
  });
  return drawing(summary, WIDTH, HEIGHT, "strip", marks);
}

/**
 * Parts of a whole from left to right, with lines: `free` ones lie that far from the right end, the budget that far
 * from where the cache begins.
 * @param {{parts: Part[], lines: Part[], whole: number, cacheFrom: number, summary: string}} model @returns {Shape}
 */
export function memoryStack({ parts, lines, whole, cacheFrom, summary }) {
  const scale = whole > 0 ? WIDTH / whole : 0;
  let at = 0;
  const bars = parts.map(({ key, bytes }) => {
    const width = Math.max(0, Math.min(WIDTH - at, bytes * scale));
    const bar = shape("rect", { class: `part-${key}`, x: place(at), y: "0", width: place(width), height: String(STACK_HEIGHT) });
    at += width;
    return bar;
  });
  const edges = bars.slice(1).map((bar) => shape("path", { class: "edge", d: `M${bar.attributes.x} 0 V${STACK_HEIGHT}`, ...SHARP }));
  const marks = lines.map(({ key, bytes }) => {
    const x = key === "budget" ? (cacheFrom + bytes) * scale : WIDTH - bytes * scale;
    return shape("path", { class: `line-${key}`, d: `M${place(Math.min(WIDTH - 1, Math.max(1, x)))} 0 V${STACK_HEIGHT}`, ...SHARP });
  });
  return drawing(summary, WIDTH, STACK_HEIGHT, "stack", [...bars, ...edges, ...marks]);
}

/**
 * The cache's budget: parked bytes, in them what each conversation holds alone, then what is kept for the live one.
 * @param {{whole: number, parked: number, retained: number, pieces: Part[], summary: string}} model @returns {Shape}
 */
export function budgetStack({ whole, parked, retained, pieces, summary }) {
  const scale = whole > 0 ? WIDTH / whole : 0;
  const rect = (/** @type {string} */ kind, /** @type {number} */ from, /** @type {number} */ bytes) =>
    shape("rect", { class: kind, x: place(from * scale), y: "0", width: place(Math.max(0, bytes * scale)), height: String(STACK_HEIGHT) });
  /** @type {Shape[]} */
  const bars = [rect("part-shared", 0, parked)];
  let at = 0;
  for (const { bytes } of pieces) {
    bars.push(rect("part-parked", at, bytes));
    at += bytes;
    bars.push(shape("path", { class: "edge", d: `M${place(at * scale)} 0 V${STACK_HEIGHT}`, ...SHARP }));
  }
  bars.push(rect("part-retained", parked, retained));
  return drawing(summary, WIDTH, STACK_HEIGHT, "stack", bars);
}

/**
 * A line over the band of the floor.
 * @param {{line: (number|null)[], top: number, floor: number, target: number, summary: string}} model @returns {Shape}
 */
export function availableLine({ line, top, floor, target, summary }) {
  const y = (/** @type {number} */ bytes) => HEIGHT - 2 - (bytes / top) * (HEIGHT - 6);
  const chart = sparkline(line, summary, top);
  const [title, ...rest] = chart.children;
  const band = shape("rect", { class: "band", x: "0", width: String(WIDTH), y: place(y(floor)), height: place(HEIGHT - y(floor)) });
  const lines = [["line-floor", floor], ["line-target", target]].map(([kind, bytes]) =>
    shape("path", { class: String(kind), d: `M0 ${place(y(Number(bytes)))} H${WIDTH}`, ...SHARP }));
  chart.children = floor > 0 ? [title, band, ...rest, ...lines] : [title, ...rest];
  chart.attributes.class = "spark available";
  return chart;
}
