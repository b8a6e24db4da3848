// The table of recent requests as values: columns, order, filter, detail and the steps of one request; CSV. Pure.
import { missWords } from "./cache_models.js";
import { UNKNOWN, clock, duration, known, number, tokensPerSecond } from "./format.js";

/** @typedef {import("./types").RequestRow} RequestRow */

/**
 * @typedef {object} Column
 * @property {string} key
 * @property {string} name
 * @property {string} title what it says exactly
 * @property {(row: RequestRow) => string} text
 * @property {(row: RequestRow) => number|string|null} value what the order looks at; null comes last
 */

/** @param {RequestRow} row */
function speedOf(row) {
  const { output_tokens: tokens, decode_ms: ms } = row;
  return known(tokens) && known(ms) && ms > 0 && tokens > 0 ? tokens / ms : null;
}

/** @param {number|null|undefined} value */
function orNull(value) {
  return known(value) ? value : null;
}

/** A request that ended before its prompt was made has none: no prompt has 0 tokens. @param {RequestRow} row */
function promptOf(row) {
  return known(row.prompt_tokens) && row.prompt_tokens > 0 ? row.prompt_tokens : null;
}

/** @type {Column[]} */
export const COLUMNS = [
  { key: "time", name: "Ended", title: "when the request ended", text: (row) => clock(row.time), value: (row) => row.time },
  {
    key: "prompt", name: "Prompt", title: "tokens of the prompt",
    text: (row) => number(promptOf(row)), value: promptOf,
  },
  {
    key: "reused", name: "Reused", title: "tokens of the prompt that were not read again",
    text: (row) => number(row.reused), value: (row) => orNull(row.reused),
  },
  {
    key: "written", name: "Written", title: "tokens of the answer",
    text: (row) => number(row.output_tokens), value: (row) => orNull(row.output_tokens),
  },
  {
    key: "first", name: "First token", title: "from the request's arrival to its first token",
    text: (row) => duration(row.ttft_ms), value: (row) => orNull(row.ttft_ms),
  },
  {
    key: "speed", name: "Speed", title: "tokens written per second",
    text: (row) => tokensPerSecond(row.output_tokens, row.decode_ms), value: speedOf,
  },
  { key: "end", name: "End", title: "how it ended", text: (row) => endWord(row), value: (row) => endWord(row) },
];

/** @param {RequestRow} row */
export function endWord(row) {
  const words = { stop: "done", length: "length limit", cancel: "stopped", error: "error" };
  return words[/** @type {keyof typeof words} */ (row.finish)] ?? row.finish ?? UNKNOWN;
}

/**
 * @param {RequestRow[]} rows @param {string} key of a column @param {boolean} ascending
 * @returns {RequestRow[]} a sorted copy; what is unknown comes last either way, equals keep their order
 */
export function sorted(rows, key, ascending) {
  const column = COLUMNS.find((each) => each.key === key) ?? COLUMNS[0];
  const sign = ascending ? 1 : -1;
  return [...rows].sort((a, b) => {
    const x = column.value(a);
    const y = column.value(b);
    if (x === null || y === null) return (x === null ? 1 : 0) - (y === null ? 1 : 0);
    return x < y ? -sign : x > y ? sign : 0;
  });
}

/** @param {RequestRow[]} rows @param {string} words all of them must be in a row's text */
export function filtered(rows, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (wanted.length === 0) return rows;
  return rows.filter((row) => {
    const text = [row.id, row.failure ?? "", row.source ?? "", row.miss ?? "", ...COLUMNS.map((column) => column.text(row))]
      .join(" ").toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
}

/**
 * The steps of a request one behind the other, in ms since it arrived. What lies between the parts that the engine
 * measured and the times that the server measured is "other": text, pipes, the network.
 * @param {RequestRow} row @returns {{kind: string, name: string, from: number, to: number}[]}
 */
export function stepsOf(row) {
  /** @type {{kind: string, name: string, from: number, to: number}[]} */
  const steps = [];
  let at = 0;
  const step = (/** @type {string} */ kind, /** @type {string} */ name, /** @type {number|null|undefined} */ ms) => {
    if (!known(ms) || ms <= 0) return;
    steps.push({ kind, name, from: at, to: at + ms });
    at += ms;
  };
  const until = (/** @type {string} */ name, /** @type {number|null|undefined} */ end) => {
    if (known(end) && end - at >= 1) step("other", name, end - at);
  };
  step("queue", "waiting in the queue", row.queue_ms);
  step("park", "parking another conversation", row.park_ms);
  step("restore", "restoring this conversation", row.restore_ms);
  step("read", "reading the prompt", row.prompt_ms);
  until("other, until the first token", row.ttft_ms);
  step("write", "writing the answer", row.decode_ms);
  until("other, until the end", row.duration_s * 1000);
  return steps;
}

const SOURCES = {
  cold: "nothing: the prompt was read from its first token",
  root: "the system prompt and tools",
  turn: "the last turn of this conversation",
  interval: "a checkpoint inside this conversation",
  pin: "a pinned position",
  tail: "all of this conversation",
  live: "this conversation",
  lane: "an idle lane with this conversation",
  parked: "this conversation, parked in memory",
  parked_checkpoint: "a checkpoint of this conversation, parked in memory",
  borrowed: "a part of another conversation, which stays parked",
  device: "this conversation, parked on the device",
  disk: "this conversation, kept on disk",
};

/** @param {RequestRow} row */
function switchWords(row) {
  if (!row.switched) return "no";
  return row.restored ? "yes, a hit: brought back from memory" : "yes, a miss";
}

/** What the engine said of the conversation cache; nothing when it said nothing. @param {RequestRow} row @returns {[string, string][]} */
function cachePairs(row) {
  /** @type {[string, string][]} */
  const pairs = [];
  if (known(row.conv)) pairs.push(["Conversation", number(row.conv)]);
  if (typeof row.switched === "boolean") pairs.push(["Changed conversation", switchWords(row)]);
  const why = missWords(row.miss);
  if (why) pairs.push(["Not reused because", why]);
  if (known(row.common)) pairs.push(["First differing position", `token ${number(row.common)}`]);
  if (row.park_skip) pairs.push(["The other was not parked", row.park_skip]);
  if (known(row.passes) && row.passes > 1) pairs.push(["Passes", `${number(row.passes)}: its thinking reached the budget`]);
  return pairs;
}

/** @param {RequestRow} row @returns {[string, string][]} */
export function detailOf(row) {
  const source = row.source ? (SOURCES[/** @type {keyof typeof SOURCES} */ (row.source)] ?? row.source) : UNKNOWN;
  /** @type {[string, string][]} */
  const pairs = [
    ["Request", row.id],
    ["Continued from", source],
    ["Prompt tokens read", number(row.prompt_read)],
    ["Reading speed", tokensPerSecond(row.prompt_read, row.prompt_ms)],
    ["Time in all", duration(row.duration_s * 1000)],
    ...cachePairs(row),
  ];
  if (row.failure) pairs.push(["What happened", row.failure]);
  return pairs;
}

/** A cell as CSV; a leading = + - @ would be a formula in a spreadsheet. @param {unknown} value */
function csvCell(value) {
  const text = value === null || value === undefined ? "" : String(value);
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const CSV_KEYS = /** @type {(keyof RequestRow)[]} */ ([
  "time", "id", "finish", "prompt_tokens", "prompt_read", "reused", "output_tokens", "queue_ms", "ttft_ms", "prompt_ms",
  "decode_ms", "park_ms", "restore_ms", "duration_s", "source", "miss", "failure", "common", "switched", "restored", "conv",
]);

/** @param {RequestRow[]} rows */
export function csv(rows) {
  const lines = rows.map((row) => CSV_KEYS.map((key) => csvCell(row[key])).join(","));
  return [CSV_KEYS.join(","), ...lines].join("\r\n") + "\r\n";
}
