// The conversation cache's four bars and what is said about them, from the JSON of /metrics. Pure. The sums are the
// server's; the page divides one by the other and nothing more. Unknown is "–", never 0.
import { UNKNOWN, byteSize, clock, counted, known, number, percent } from "./format.js";

/** @typedef {import("./types").Metrics} Metrics */
/** @typedef {import("./types").RequestRow} RequestRow */
/** @typedef {import("./types").ConversationCache} ConversationCache */

/**
 * @typedef {object} Bar
 * @property {string} key
 * @property {string} head
 * @property {string} words
 * @property {number} share 0..1
 * @property {string} detail
 * @property {string} tip
 * @property {(number|null)[]} line one value a request, oldest first; null: not known, or another engine begins. Of the hits:
 *   1, 0, NO_SWITCH
 * @property {number} top what the line is drawn against
 * @property {string} summary the line in words
 */

export const NO_SWITCH = -1;
const SPOKEN_VALUES = 20; // of a line in words: more is a table

/** @param {Metrics} metrics @returns {ConversationCache|null} null: there is nothing to show */
export function cacheOf(metrics) {
  const cache = metrics.conversation_cache;
  return cache?.enabled ? cache : null;
}

/** The requests of the window that report the cache, newest first. @param {Metrics} metrics */
export function windowRows(metrics) {
  const window = metrics.conversation_cache?.window ?? 0;
  return metrics.requests.filter((row) => typeof row.switched === "boolean").slice(0, window);
}

/** Did another engine begin between these requests? @param {RequestRow[]} rows */
export function restarted(rows) {
  return rows.some((row, i) => i > 0 && row.epoch !== rows[i - 1].epoch);
}

/**
 * One value a request, oldest first; a null where another engine begins.
 * @param {RequestRow[]} rows newest first @param {(row: RequestRow) => number|null|undefined} pick
 */
export function lineOf(rows, pick) {
  /** @type {(number|null)[]} */
  const line = [];
  const old = [...rows].reverse();
  old.forEach((row, i) => {
    if (i > 0 && row.epoch !== old[i - 1].epoch) line.push(null);
    line.push(pick(row) ?? null);
  });
  return line;
}

/** @param {RequestRow} row @returns {number|null} */
export function reusedShare(row) {
  return known(row.reused) && known(row.prompt_tokens) && row.prompt_tokens > 0 ? row.reused / row.prompt_tokens : null;
}

/** 1: a hit, 0: a miss, null: no switch. @param {RequestRow} row @returns {number|null} */
export function hitOf(row) {
  if (!row.switched) return null;
  return row.restored ? 1 : 0;
}

/** @param {string} what @param {string[]} values oldest first */
function spoken(what, values) {
  if (values.length === 0) return `${what}: no request yet`;
  const shown = values.slice(-SPOKEN_VALUES);
  return `${what} of the last ${counted(shown.length, "request")}, oldest first: ${shown.join(", ")}`;
}

/** @param {number|null|undefined} part @param {number|null|undefined} whole */
function shareOf(part, whole) {
  return known(part) && known(whole) && whole > 0 ? Math.min(1, part / whole) : 0;
}

/** Are there finished requests, but none that reports the cache? @param {Metrics} metrics @param {ConversationCache} cache */
export function silent(metrics, cache) {
  return cache.rows === 0 && metrics.requests.some((row) => known(row.prompt_ms));
}

/** @param {Metrics} metrics @param {ConversationCache} cache @param {RequestRow[]} rows @returns {Bar} */
function reusedBar(metrics, cache, rows) {
  const any = cache.prompt_tokens > 0;
  const of = `${number(cache.reused_tokens)} of ${number(cache.prompt_tokens)} prompt tokens in ${counted(cache.rows, "request")}`;
  return {
    key: "reused", head: `Prompt reused (last ${number(cache.window)})`,
    words: any ? percent(cache.reused_tokens / cache.prompt_tokens) : UNKNOWN,
    share: shareOf(cache.reused_tokens, cache.prompt_tokens),
    detail: any ? of : silent(metrics, cache) ? "this engine does not report it" : "no request yet",
    tip: `The share of prompt tokens that were not read again: reused tokens divided by prompt tokens, each summed over the newest ${number(cache.window)} requests that report it. Higher is faster.`,
    line: lineOf(rows, reusedShare), top: 1,
    summary: spoken("Prompt reused", [...rows].reverse().map((row) => percent(reusedShare(row)))),
  };
}

/** @param {Metrics} metrics @param {ConversationCache} cache @param {RequestRow[]} rows @returns {Bar} */
function hitsBar(metrics, cache, rows) {
  const any = cache.switches > 0;
  const mute = silent(metrics, cache);
  const word = { 1: "hit", 0: "miss" };
  return {
    key: "hits", head: `Hits on switches (last ${number(cache.window)})`,
    words: any ? percent(cache.hits / cache.switches) : mute ? UNKNOWN : "no switches yet",
    share: shareOf(cache.hits, cache.switches),
    detail: any ? `${number(cache.hits)} of ${counted(cache.switches, "switch", "switches")} in ${counted(cache.rows, "request")}`
      : mute ? "this engine does not report it" : "a switch is a change of conversation",
    tip: `A switch is a request that changed the conversation; a hit came back from a parked snapshot instead of being read again. A new chat counts as a miss. Over the newest ${number(cache.window)} requests that report it.`,
    line: lineOf(rows, (row) => hitOf(row) ?? NO_SWITCH), top: 1,
    summary: spoken("Switches", [...rows].reverse().map((row) => word[/** @type {0|1} */ (hitOf(row))] ?? "no switch")),
  };
}

/** Why the present is not known, or "" when it is. @param {Metrics} metrics @param {ConversationCache} cache */
function absence(metrics, cache) {
  if (known(cache.parked)) return "";
  if (metrics.live.state === "unloaded") return "no model is loaded: nothing is parked";
  if (metrics.live.state === "loading") return "the engine is not ready yet";
  if (metrics.live.state === "failed") return "no engine runs";
  return silent(metrics, cache) ? "this engine does not report it" : "no request since the engine started";
}

/** @param {Metrics} metrics @param {ConversationCache} cache @param {RequestRow[]} rows @returns {Bar} */
function parkedBar(metrics, cache, rows) {
  return {
    key: "parked", head: "Parked conversations",
    words: known(cache.parked) ? `${number(cache.parked)} of ${number(cache.slots)}` : UNKNOWN,
    share: shareOf(cache.parked, cache.slots),
    detail: absence(metrics, cache) || `${known(cache.live_conv) ? "beside the live one, " : ""}as of ${clock(cache.as_of)}`,
    tip: "Conversations that wait in memory for their next turn, of the places there are. The live conversation is beside them. The line shows how many there were after each request.",
    line: lineOf(rows, (row) => row.parked), top: cache.slots ?? 0,
    summary: spoken("Parked conversations after each", [...rows].reverse().map((row) => number(row.parked))),
  };
}

/** @param {Metrics} metrics @param {ConversationCache} cache @param {RequestRow[]} rows @returns {Bar} */
function memoryBar(metrics, cache, rows) {
  const lost = `evicted ${number(cache.evictions)}, released ${number(cache.released)}, superseded ${number(cache.superseded)}, not parked ${number(cache.skipped)}, of them lost at a switch ${number(cache.lost)}`;
  return {
    key: "memory", head: "Cache RAM",
    words: known(cache.bytes) ? `${byteSize(cache.bytes)} of ${byteSize(cache.budget_bytes)}` : UNKNOWN,
    share: shareOf(cache.bytes, cache.budget_bytes),
    detail: absence(metrics, cache) || (known(cache.evictions) ? lost : "no request since the engine started"),
    tip: `Parked conversations and what is kept of the live one, of the budget. Since the engine started: ${lost}. Evicted: for room in the budget or the places. Released: the machine was short of memory. Superseded: older copies of the same chat. Not parked: no room, no place or too little memory when it was left; lost at a switch: no room beside the one that came back.`,
    line: lineOf(rows, (row) => row.bytes), top: cache.budget_bytes ?? 0,
    summary: spoken("Cache RAM after each", [...rows].reverse().map((row) => byteSize(row.bytes))),
  };
}

/** @param {Metrics} metrics @returns {Bar[]} the four bars; none without the cache */
export function barsModel(metrics) {
  const cache = cacheOf(metrics);
  if (!cache) return [];
  const rows = windowRows(metrics);
  return [reusedBar, hitsBar, parkedBar, memoryBar].map((bar) => bar(metrics, cache, rows));
}

export const MISSES = {
  new: "a new conversation: nothing held shares more than the system prompt",
  steering: "another control vector was asked for",
  level: "another thinking level changes the head of the prompt",
  rewritten: "its history was changed",
  evicted: "it was evicted for room",
  released: "it was released when the machine was short of memory",
  budget: "it was too big for the cache's budget",
  floor: "the machine had too little free memory to park it",
  invalid: "its snapshot was refused",
  identity: "its snapshot belongs to other weights or settings",
};

/** @param {string|null|undefined} miss */
export function missWords(miss) {
  return miss && miss !== "none" ? (MISSES[/** @type {keyof typeof MISSES} */ (miss)] ?? miss) : "";
}

/** Does it work? One sentence. @param {Metrics} metrics */
export function cacheSentence(metrics) {
  const cache = cacheOf(metrics);
  if (!cache) return "";
  if (silent(metrics, cache)) return "This engine does not report what its conversation cache does.";
  if (cache.rows === 0) return metrics.requests.length > 0 ? "On; no request has got as far as using it yet." : "On, and not used yet: no request has come.";
  if (cache.switches === 0) return "On: all of these requests continued one conversation, so nothing had to come back.";
  const miss = windowRows(metrics).find((row) => hitOf(row) === 0);
  const why = miss ? ` The last miss: ${missWords(miss.miss) || "no reason is known"}.` : "";
  if (cache.hits === 0) return `None of ${counted(cache.switches, "switch", "switches")} came back from memory.${why}`;
  return `It works: ${number(cache.hits)} of ${counted(cache.switches, "switch", "switches")} came back from memory instead of being read again.${why}`;
}

/** @param {Metrics} metrics */
export function restartWords(metrics) {
  return restarted(windowRows(metrics)) ? "The engine restarted among these requests: parked conversations were lost, and the lines are broken there." : "";
}

export const BAR_HEADS = ["Ended", "Prompt", "Reused", "Switch", "Parked", "Cache RAM"];

/** What the lines show, newest first. @param {Metrics} metrics @returns {string[][]} */
export function barsTable(metrics) {
  const rows = windowRows(metrics);
  /** @type {string[][]} */
  const table = [];
  rows.forEach((row, i) => {
    if (i > 0 && row.epoch !== rows[i - 1].epoch) table.push(["engine restart", "", "", "", "", ""]);
    const hit = hitOf(row);
    const word = hit === null ? "no switch" : hit === 1 ? "hit" : "miss";
    table.push([clock(row.time), number(row.prompt_tokens), number(row.reused), word, number(row.parked), byteSize(row.bytes)]);
  });
  return table;
}
