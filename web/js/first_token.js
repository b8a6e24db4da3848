// Why was a request slow: tokens read against the time to the first token, as a value. Pure.
import { clock, counted, duration, known, number } from "./format.js";

/** @typedef {import("./types").RequestRow} RequestRow */
/** @typedef {{x: number, y: number, kind: string, id: string, words: string}} Point */

export const GROUPS = /** @type {const} */ ({
  cold: "read from the first token",
  root: "only its beginning reused",
  warm: "continued the live conversation",
  restored: "brought back from memory",
  unknown: "from where is not known",
});
export const FIRST_HEADS = ["Ended", "Source", "Tokens read", "First token", "Waited", "Brought back in"];

/** @param {RequestRow} row what the server calls it; an older engine does not say */
function groupOf(row) {
  return row.group && row.group in GROUPS ? row.group : "unknown";
}

/** @param {RequestRow} row */
function plotted(row) {
  return known(row.ttft_ms) && row.ttft_ms > 0 && known(row.prompt_read) && row.prompt_read > 0;
}

/** The powers of ten around values > 0. @param {number[]} values @returns {[number, number]} */
function decades(values) {
  const low = 10 ** Math.floor(Math.log10(Math.min(...values)));
  const high = 10 ** Math.ceil(Math.log10(Math.max(...values)));
  return [low, high > low ? high : low * 10];
}

/** @param {[number, number]} ends @returns {number[]} the powers of ten from end to end */
function ticks([low, high]) {
  const out = [];
  for (let value = low; value <= high * 1.001; value *= 10) out.push(value);
  return out;
}

/** @param {number} value */
function shortNumber(value) {
  return value >= 1000 ? `${number(value / 1000)}K` : number(value);
}

/** @param {number} ms a power of ten */
function shortTime(ms) {
  return ms >= 1000 ? `${number(ms / 1000)} s` : ms >= 1 ? `${number(ms)} ms` : `${ms} ms`;
}

/**
 * @param {RequestRow[]} rows
 * @returns {{points: Point[], x: {value: number, text: string}[], y: {value: number, text: string}[], summary: string}}
 *   x and y: the ticks of the axes, the first and the last are their ends
 */
export function firstTokenModel(rows) {
  const shown = rows.filter(plotted);
  if (shown.length === 0) return { points: [], x: [], y: [], summary: "No request yet." };
  const points = shown.map((row) => ({
    x: row.prompt_read ?? 1, y: row.ttft_ms ?? 1, kind: groupOf(row), id: row.id,
    words: `${clock(row.time)}, ${GROUPS[/** @type {keyof typeof GROUPS} */ (groupOf(row))]}: ${counted(row.prompt_read, "token")} read, first token after ${duration(row.ttft_ms)}`,
  }));
  const x = ticks(decades(points.map((point) => point.x))).map((value) => ({ value, text: shortNumber(value) }));
  const y = ticks(decades(points.map((point) => point.y))).map((value) => ({ value, text: shortTime(value) }));
  const counts = Object.entries(GROUPS)
    .map(([kind, words]) => /** @type {[number, string]} */ ([points.filter((point) => point.kind === kind).length, words]))
    .filter(([count]) => count > 0).map(([count, words]) => `${count} ${words}`);
  return { points, x, y, summary: `${counted(points.length, "request")}: ${counts.join(", ")}. Both axes are logarithmic.` };
}

/** The points as a table, newest first. @param {RequestRow[]} rows @returns {{id: string, cells: string[]}[]} */
export function firstTokenTable(rows) {
  return rows.filter(plotted).map((row) => ({
    id: row.id,
    cells: [
      clock(row.time), GROUPS[/** @type {keyof typeof GROUPS} */ (groupOf(row))], number(row.prompt_read), duration(row.ttft_ms),
      duration(row.queue_ms), duration(row.restore_ms),
    ],
  }));
}
