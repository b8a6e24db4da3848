// Where the memory is, what is available, what the cache gave back: as values. Pure.
import { cacheOf, silent } from "./cache_models.js";
import { UNKNOWN, byteSize, clock, counted, duration, known, number } from "./format.js";

/** @typedef {import("./types").Metrics} Metrics */
/** @typedef {import("./types").Ram} Ram */
/** @typedef {import("./types").CacheList} CacheList */
/** @typedef {import("./types").CacheEvent} CacheEvent */
/** @typedef {{key: string, name: string, bytes: number}} Part */
/** @typedef {{epoch: number, time: number, bytes: number}} Reading */

const MIB = 2 ** 20;
export const READINGS_MAX = 300; // of available memory, kept by the page while it is open
const PAUSE_S = 10; // without a reading: the line is broken there

// From the left in this order: what the cache holds grows into what is free.
const PARTS = /** @type {[keyof import("./types").RamSplit, string, string][]} */ ([
  ["other_bytes", "others", "other processes"],
  ["server_bytes", "server", "this server"],
  ["weights_bytes", "weights", "weights"],
  ["engine_other_bytes", "engine", "rest of the engine"],
  ["active_kv_bytes", "active", "live conversation"],
  ["checkpoints_bytes", "checkpoints", "its checkpoints"],
  ["parked_bytes", "parked", "parked conversations"],
  ["retained_bytes", "retained", "kept for the live one"],
  ["free_bytes", "free", "free"],
]);

/** @param {Ram} ram @param {boolean} cached @returns {Part[]} what is known and not nothing */
function partsOf(ram, cached) {
  const { split } = ram;
  if (split) {
    return PARTS.flatMap(([key, name, words]) => {
      const bytes = split[key];
      return known(bytes) && (bytes > 0 || (cached && name === "parked")) ? [{ key: name, name: words, bytes }] : [];
    });
  }
  const used = ram.total_bytes - ram.available_bytes;
  // A mapped model file is resident but can be given back: the engine may have more than what is used.
  const engine = Math.min(ram.engine_bytes ?? 0, used);
  return [
    { key: "engine", name: "engine", bytes: engine }, { key: "others", name: "other processes", bytes: used - engine },
    { key: "free", name: "free", bytes: ram.available_bytes },
  ];
}

/**
 * @param {Metrics} metrics
 * @returns {{words: string, whole: number, parts: Part[], lines: Part[], cacheFrom: number, summary: string}} lines: floor, target
 *   (floor + hysteresis), budget; cacheFrom: where parked conversations begin
 */
export function memoryModel(metrics) {
  const ram = metrics.hardware?.ram;
  if (!ram) return { words: UNKNOWN, whole: 0, parts: [], lines: [], cacheFrom: 0, summary: "No reading." };
  const parts = partsOf(ram, metrics.conversation_cache?.enabled === true);
  const cached = metrics.conversation_cache?.enabled ? ram.lines : null;
  const line = (/** @type {string} */ key, /** @type {string} */ name, /** @type {number|null|undefined} */ bytes) =>
    (known(bytes) && bytes > 0 ? [{ key, name, bytes }] : []);
  const lines = [
    ...line("floor", "floor: must stay free", cached?.floor_bytes),
    ...line("target", "gives back until this is free", cached?.floor_hysteresis_bytes),
    ...line("budget", "the cache's budget", cached?.budget_bytes),
  ];
  let cacheFrom = 0;
  for (const part of parts) {
    if (part.key === "parked" || part.key === "retained" || part.key === "free") break;
    cacheFrom += part.bytes;
  }
  const words = `${byteSize(ram.available_bytes)} free of ${byteSize(ram.total_bytes)}`;
  const told = [...parts, ...lines].map(({ name, bytes }) => `${name} ${byteSize(bytes)}`);
  return { words, whole: ram.total_bytes, parts, lines, cacheFrom, summary: `Memory from left to right: ${told.join(", ")}` };
}

/**
 * What lies in the cache's budget: one piece a conversation with the bytes that only it holds, oldest first.
 * @param {Metrics} metrics @param {CacheList|null} list of GET /cache
 * @returns {{whole: number, parked: number, retained: number, pieces: Part[], summary: string}|null} null: not known
 */
export function budgetModel(metrics, list) {
  const cache = metrics.conversation_cache;
  const parked = metrics.hardware?.ram?.split?.parked_bytes;
  if (!cache?.enabled || !known(cache.budget_bytes) || cache.budget_bytes <= 0 || !known(cache.bytes) || !known(parked)) return null;
  const pieces = [...(list?.entries ?? [])]
    .sort((a, b) => (b.last_used_s ?? 0) - (a.last_used_s ?? 0))
    .flatMap((entry) => (known(entry.unique_bytes) ? [{ key: `entry${entry.entry}`, name: `chat ${entry.conv ?? UNKNOWN}`, bytes: entry.unique_bytes }] : []));
  const own = pieces.map(({ name, bytes }) => `${name} ${byteSize(bytes)}`);
  const summary = `In the cache: ${byteSize(cache.bytes)} of ${byteSize(cache.budget_bytes)}` +
    `${own.length > 0 ? `; on their own, oldest first: ${own.join(", ")}` : ""}`;
  return { whole: cache.budget_bytes, parked, retained: cache.retained_bytes ?? 0, pieces, summary };
}

export const MEMORY_HEADS = ["What", "Size"];

/** @param {ReturnType<typeof memoryModel>} memory @param {ReturnType<typeof budgetModel>} budget @returns {string[][]} */
export function memoryTable(memory, budget) {
  return [...memory.parts, ...memory.lines, ...(budget?.pieces ?? []).map((piece) => ({ ...piece, name: `only ${piece.name}` }))]
    .map(({ name, bytes }) => [name, byteSize(bytes)]);
}

/** Adds what is available now to what was. @param {Reading[]} readings oldest first @param {Metrics} metrics @returns {Reading[]} */
export function withReading(readings, metrics) {
  const bytes = metrics.hardware?.ram?.available_bytes;
  if (!known(bytes) || readings[readings.length - 1]?.time === metrics.time) return readings;
  return [...readings, { epoch: metrics.engine.epoch, time: metrics.time, bytes }].slice(-READINGS_MAX);
}

/**
 * @param {Reading[]} readings @param {Metrics} metrics
 * @returns {{line: (number|null)[], top: number, floor: number, target: number, words: string, summary: string, low: boolean}}
 */
export function availableModel(readings, metrics) {
  const lines = metrics.hardware?.ram?.lines;
  const floor = lines?.floor_bytes ?? 0;
  const target = lines?.floor_hysteresis_bytes ?? 0;
  /** @type {(number|null)[]} */
  const line = [];
  readings.forEach((reading, i) => {
    const before = readings[i - 1];
    if (before && (before.epoch !== reading.epoch || reading.time - before.time > PAUSE_S)) line.push(null);
    line.push(reading.bytes);
  });
  const now = readings[readings.length - 1]?.bytes;
  const values = readings.map((reading) => reading.bytes);
  const least = values.length > 0 ? Math.min(...values) : null;
  const low = known(now) && floor > 0 && now < floor;
  return {
    line, floor, target, top: Math.max(target * 1.1, ...values, 1), low, words: byteSize(now),
    summary: least === null ? "No reading yet."
      : `Since this view opened: at least ${byteSize(least)} available; the floor is ${floor > 0 ? byteSize(floor) : UNKNOWN}${low ? ", and memory is below it now" : ""}.`,
  };
}

export const AVAILABLE_HEADS = ["When", "Available"];

/** Newest first, one row of each ten readings. @param {Reading[]} readings @returns {string[][]} */
export function availableTable(readings) {
  return [...readings].reverse().filter((_, i) => i % 10 === 0).map(({ time, bytes }) => [clock(time), byteSize(bytes)]);
}

const WHERES = { request: "before an answer began", idle: "while idle", window: "while answering", command: "when asked to" };

/** @param {CacheEvent} event @returns {string} */
export function pressureWords(event) {
  const { pressure } = event;
  if (!pressure) return "memory below the floor";
  const where = WHERES[/** @type {keyof typeof WHERES} */ (pressure.where)] ?? pressure.where;
  const mib = (/** @type {number} */ value) => byteSize(value * MIB);
  const parts = [
    ...(pressure.retained_mib > 0 ? [`${mib(pressure.retained_mib)} kept for the live one`] : []),
    ...(pressure.lane_checkpoints_mib > 0 ? [`${mib(pressure.lane_checkpoints_mib)} of idle checkpoints`] : []),
  ];
  const of = parts.length > 0 ? ` (of it ${parts.join(", ")})` : "";
  const dialogs = pressure.released_dialogs > 0 ? `${counted(pressure.released_dialogs, "conversation")}, ` : "";
  const end = pressure.exhausted ? " Nothing more could be released." : "";
  const any = pressure.released_dialogs > 0 || pressure.released_mib > 0;
  const what = any ? `Released ${dialogs}${mib(pressure.released_mib)}${of} in ${duration(event.ms)}` : "Nothing was released";
  return `${what}, ${where}: ${number(pressure.available_before_mib)} → ${number(pressure.available_after_mib)} MiB available, ` +
    `floor ${number(pressure.floor_mib)} MiB, gives back until ${number(pressure.target_mib)} MiB; ${number(pressure.parked)} still parked.${end}`;
}

/** What is said when there is no such event. @param {Metrics} metrics */
export function pressureAbsence(metrics) {
  const cache = cacheOf(metrics);
  return cache && silent(metrics, cache) ? "This engine does not report it." : "It did not: nothing was given back.";
}

/** @param {Metrics} metrics @returns {{time: string, words: string}[]} newest first */
export function pressureModel(metrics) {
  const events = metrics.conversation_cache?.events ?? [];
  return events.filter((event) => event.kind === "pressure").map((event) => ({ time: clock(event.time), words: pressureWords(event) }));
}
