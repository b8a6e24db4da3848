// Why was a request slow: tokens read against the time to the first token, as a value. Pure.
import { counted, duration, known, number } from "./format.js";

/** @typedef {import("./types").RequestRow} RequestRow */

/** @param {RequestRow} row */
function kindOf(row) {
  if (row.source === "cold" || !row.reused) return "cold";
  return row.source === "root" || row.source === "interval" || row.source === "pin" ? "part" : "live";
}

/** The powers of ten around values > 0. @param {number[]} values @returns {[number, number]} */
function decades(values) {
  const least = Math.min(...values);
  const most = Math.max(...values);
  const low = 10 ** Math.floor(Math.log10(least));
  const high = 10 ** Math.ceil(Math.log10(most));
  return [low, high > low ? high : low * 10];
}

/**
 * @param {RequestRow[]} rows
 * @returns {{points: {x: number, y: number, kind: string}[], range: {x: [number, number], y: [number, number]},
 *   summary: string, top: string, least: string, most: string}} top, least and most: the ends of the axes in words
 */
export function firstTokenModel(rows) {
  const points = rows
    .filter((row) => known(row.ttft_ms) && row.ttft_ms > 0 && known(row.prompt_read) && row.prompt_read > 0)
    .map((row) => ({ x: row.prompt_read ?? 1, y: row.ttft_ms ?? 1, kind: kindOf(row) }));
  if (points.length === 0) {
    return { points, range: { x: [1, 10], y: [1, 10] }, summary: "No request yet.", top: "", least: "", most: "" };
  }
  const x = decades(points.map((point) => point.x));
  const y = decades(points.map((point) => point.y));
  const summary = `${counted(points.length, "request")}. To the right: prompt tokens read, ${number(x[0])} to ${number(x[1])}. ` +
    `Upwards: time to the first token, ${duration(y[0])} to ${duration(y[1])}. Both axes are logarithmic.`;
  return {
    points, range: { x, y }, summary, top: `↑ ${duration(y[1])} to the first token`, least: `${number(x[0])} tokens read`,
    most: `${number(x[1])} tokens read →`,
  };
}
