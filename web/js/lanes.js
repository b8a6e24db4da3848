// Who evicted whom: one lane a conversation, one column a request, marks for what happened to parked conversations.
// Columns follow each other in time but are equally wide: requests of a second and pauses of an hour fit one picture.
// Pure.
import { UNKNOWN, byteSize, clock, counted, duration, known, number } from "./format.js";
import { cacheOf, missWords } from "./cache_models.js";

/** @typedef {import("./types").Metrics} Metrics */
/** @typedef {import("./types").RequestRow} RequestRow */
/** @typedef {import("./types").CacheEvent} CacheEvent */
/** @typedef {{key: string, name: string, words: string, live: boolean}} Lane */
/** @typedef {{lane: number, kind: string}} Mark */
/**
 * @typedef {object} Column
 * @property {"request"|"events"|"restart"} kind
 * @property {string} id of the request
 * @property {number} lane of the request
 * @property {number} reading 0..1, the part of its work before the first token
 * @property {number|null} from lane that this request switched away from
 * @property {boolean} hit
 * @property {boolean} pressure
 * @property {Mark[]} marks
 * @property {string} words
 */

export const COLUMNS_MAX = 24;
export const LANES_MAX = 8;
export const LANE_HEADS = ["Time", "Chat", "What", "Tokens", "Bytes", "Took", "Why"];

// What an event is called, and the mark that stands for it.
const KINDS = /** @type {Record<string, {mark: string, words: string}>} */ ({
  park: { mark: "park", words: "parked" },
  restore: { mark: "restore", words: "brought back" },
  borrow: { mark: "restore", words: "lent to a new conversation" },
  skip: { mark: "lost", words: "not parked" },
  lost: { mark: "lost", words: "lost at an exchange" },
  supersede: { mark: "evict", words: "older copy dropped" },
  evict: { mark: "evict", words: "evicted for room" },
  drop: { mark: "evict", words: "dropped" },
  release: { mark: "release", words: "released: memory was short" },
});
export const MARK_WORDS = /** @type {const} */ ({
  park: "parked", restore: "brought back", evict: "evicted or dropped", release: "released", lost: "not parked",
});

/** @param {number|null|undefined} epoch @param {number|null|undefined} conv */
const keyOf = (epoch, conv) => `${epoch}:${conv}`;

/** @param {CacheEvent} event @param {RequestRow} row */
function belongs(event, row) {
  return known(event.ticket) && event.ticket === row.ticket && event.epoch === row.epoch;
}

/** @param {RequestRow} row */
function reading(row) {
  const before = (row.park_ms ?? 0) + (row.restore_ms ?? 0) + (row.prompt_ms ?? 0);
  const whole = before + (row.decode_ms ?? 0);
  return whole > 0 ? before / whole : 1;
}

/** @param {RequestRow} row */
function requestWords(row) {
  const turn = row.switched ? (row.restored ? "switch, a hit" : "switch, a miss") : "continued";
  return `${turn}, read in ${duration(row.prompt_ms)}, answered in ${duration(row.decode_ms)}`;
}

/** Whose lane is the live one; "" = nobody's, or not known. @param {Metrics} metrics */
function liveKey(metrics) {
  const conv = cacheOf(metrics)?.live_conv;
  return known(conv) ? keyOf(metrics.engine.epoch, conv) : "";
}

/**
 * The conversations of rows and events and the one that is being read, oldest first, at most LANES_MAX of the newest.
 * @param {Metrics} metrics @param {RequestRow[]} rows @param {CacheEvent[]} events
 */
function lanesOf(metrics, rows, events) {
  const first = new Map();
  const steps = [...rows, ...events].filter((step) => known(step.conv)).sort((a, b) => a.time - b.time).map(({ epoch, conv }) => ({ epoch, conv }));
  if (liveKey(metrics)) steps.push({ epoch: metrics.engine.epoch, conv: cacheOf(metrics)?.live_conv });
  for (const step of steps) if (!first.has(keyOf(step.epoch, step.conv))) first.set(keyOf(step.epoch, step.conv), step);
  const newest = [...new Set([...steps].reverse().map((step) => keyOf(step.epoch, step.conv)))].slice(0, LANES_MAX);
  return { keys: [...first.keys()].filter((key) => newest.includes(key)), first, hidden: first.size - Math.min(first.size, LANES_MAX) };
}

/** @param {Metrics} metrics @param {RequestRow[]} rows @param {string[]} keys @param {Map<string, any>} first @returns {Lane[]} */
function named(metrics, rows, keys, first) {
  const present = metrics.engine.epoch;
  const live = liveKey(metrics);
  return keys.map((key) => {
    const step = first.get(key);
    const words = [...rows].reverse().find((row) => keyOf(row.epoch, row.conv) === key && row.first_words)?.first_words;
    return {
      key, name: `Chat ${step.conv}`, live: key === live,
      words: step.epoch === present ? words ?? "" : "before the restart",
    };
  });
}

/** @param {Partial<Column>} parts @returns {Column} */
function column(parts) {
  return { kind: "events", id: "", lane: -1, reading: 0, from: null, hit: false, pressure: false, marks: [], words: "", ...parts };
}

/** @param {CacheEvent[]} events @param {string[]} keys @returns {Mark[]} */
function marksOf(events, keys) {
  return events.flatMap((event) => {
    const lane = keys.indexOf(keyOf(event.epoch, event.conv));
    const kind = KINDS[event.kind]?.mark;
    return lane >= 0 && kind ? [{ lane, kind }] : [];
  });
}

/** @param {RequestRow[]} rows oldest first @param {CacheEvent[]} events oldest first @param {string[]} keys @returns {Column[]} */
function columnsOf(rows, events, keys) {
  /** @type {Column[]} */
  const columns = [];
  const loose = events.filter((event) => !rows.some((row) => belongs(event, row)));
  rows.forEach((row, i) => {
    const before = rows[i - 1];
    if (before && before.epoch !== row.epoch) columns.push(column({ kind: "restart", words: "the engine restarted" }));
    const own = events.filter((event) => belongs(event, row));
    columns.push(column({
      kind: "request", id: row.id, lane: keys.indexOf(keyOf(row.epoch, row.conv)), reading: reading(row),
      from: row.switched && before && before.epoch === row.epoch ? keys.indexOf(keyOf(before.epoch, before.conv)) : null,
      hit: row.restored === true, pressure: own.some((event) => event.kind === "pressure"), marks: marksOf(own, keys),
      words: `${clock(row.time)}, chat ${row.conv}: ${requestWords(row)}`,
    }));
    const until = rows[i + 1]?.time ?? Infinity;
    const between = loose.filter((event) => event.time >= row.time && event.time < until);
    if (between.length > 0) {
      columns.push(column({
        pressure: between.some((event) => event.kind === "pressure"), marks: marksOf(between, keys),
        words: between.map((event) => `${clock(event.time)}, ${eventWords(event)}`).join("; "),
      }));
    }
  });
  return columns;
}

/** @param {CacheEvent} event */
export function eventWords(event) {
  const what = event.kind === "pressure" ? "memory below the floor" : KINDS[event.kind]?.words ?? event.kind;
  return known(event.conv) ? `chat ${event.conv} ${what}` : what;
}

/** @param {RequestRow[]} rows @param {CacheEvent[]} events */
function tableOf(rows, events) {
  const steps = [
    ...rows.map((row) => ({
      time: row.time,
      cells: [clock(row.time), number(row.conv), requestWords(row), number(row.prompt_tokens), "", duration(row.duration_s * 1000), missWords(row.miss)],
    })),
    ...events.map((event) => ({
      time: event.time,
      cells: [
        clock(event.time), known(event.conv) ? number(event.conv) : UNKNOWN,
        event.kind === "pressure" ? "memory below the floor" : KINDS[event.kind]?.words ?? event.kind,
        number(event.tokens), byteSize(event.bytes), duration(event.ms), event.reason ?? "",
      ],
    })),
  ];
  return steps.sort((a, b) => b.time - a.time).map((step) => step.cells);
}

/** @param {RequestRow[]} rows @param {CacheEvent[]} events @param {number} hidden @param {boolean} any requests at all */
function summaryOf(rows, events, hidden, any) {
  if (rows.length === 0) return any ? "No request has said yet which conversation it belongs to." : "No request yet.";
  const count = (/** @type {string} */ mark) => events.filter((event) => KINDS[event.kind]?.mark === mark).length;
  const kinds = /** @type {(keyof typeof MARK_WORDS)[]} */ (Object.keys(MARK_WORDS));
  const parts = kinds.filter((kind) => count(kind) > 0).map((kind) => `${count(kind)} ${MARK_WORDS[kind]}`);
  const switches = rows.filter((row) => row.switched).length;
  const older = hidden > 0 ? ` ${counted(hidden, "older conversation")} not shown.` : "";
  return `The last ${counted(rows.length, "request")}, one column each, ${counted(switches, "switch", "switches")}` +
    `${parts.length > 0 ? `; ${parts.join(", ")}` : ""}.${older}`;
}

/**
 * @param {Metrics} metrics
 * @returns {{lanes: Lane[], columns: Column[], first: string, last: string, summary: string, table: string[][]}}
 */
export function lanesModel(metrics) {
  const count = Math.min(COLUMNS_MAX, metrics.conversation_cache?.window ?? COLUMNS_MAX);
  const rows = metrics.requests.filter((row) => known(row.conv)).slice(0, count).reverse();
  const since = rows[0]?.began ?? rows[0]?.time ?? Infinity;
  const events = [...(cacheOf(metrics)?.events ?? [])].reverse().filter((event) => event.time >= since);
  const { keys, first, hidden } = lanesOf(metrics, rows, events);
  const columns = columnsOf(rows, events, keys);
  return {
    lanes: named(metrics, rows, keys, first), columns, first: clock(rows[0]?.time), last: clock(Math.max(rows[rows.length - 1]?.time ?? -Infinity, events[events.length - 1]?.time ?? -Infinity)),
    summary: summaryOf(rows, events, hidden, metrics.requests.length > 0), table: tableOf(rows, events),
  };
}
