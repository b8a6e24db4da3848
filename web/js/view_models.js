// From the JSON of /metrics to what the tiles show. Pure functions; they may divide sums of given numbers and nothing
// more. Unknown is "–", never 0.
import { UNKNOWN, counted, byteSize, known, number, percent, rate, span, tokensPerSecond } from "./format.js";

/** @typedef {import("./types").Metrics} Metrics */
/** @typedef {import("./types").RequestRow} RequestRow */
/** @typedef {import("./types").Hardware} Hardware */
/** @typedef {import("./types").Gpu} Gpu */

const ERRORS_MAX = 20;
const TABLE_STEP_S = 30; // of the speeds as a table

/** Speeds of the newest request that has each. @param {RequestRow[]} rows newest first */
export function lastSpeeds(rows) {
  const read = rows.find((row) => known(row.prompt_read) && row.prompt_read > 0 && known(row.prompt_ms) && row.prompt_ms > 0);
  const wrote = rows.find((row) => known(row.output_tokens) && row.output_tokens > 1 && known(row.decode_ms) && row.decode_ms > 0);
  return {
    read: tokensPerSecond(read?.prompt_read, read?.prompt_ms),
    wrote: tokensPerSecond(wrote?.output_tokens, wrote?.decode_ms),
  };
}

/** The last whole second: the running one is not over. @param {number[]|undefined} seconds */
function lastSecond(seconds) {
  return seconds && seconds.length > 1 ? seconds[seconds.length - 2] : 0;
}

/** @param {Metrics} metrics */
export function speedModel(metrics) {
  const { live, speed, requests } = metrics;
  const last = lastSpeeds(requests);
  const reads = live.state === "reading" && lastSecond(speed?.read) > 0;
  const writes = live.state === "generating" && known(live.tok_s) && live.tok_s > 0;
  return {
    read: reads ? rate(lastSecond(speed?.read)) : last.read,
    readWhen: reads ? "now" : whenWords(last.read, "prompt"),
    wrote: writes ? rate(live.tok_s) : last.wrote,
    wroteWhen: writes ? "now" : whenWords(last.wrote, "answer"),
  };
}

/** @param {string} value @param {string} what */
function whenWords(value, what) {
  return value === UNKNOWN ? `no ${what} yet` : `last ${what}`;
}

/**
 * @param {number[]} seconds tokens in each second, oldest first
 * @param {string} verb "read" or "written"
 */
export function speedSummary(seconds, verb) {
  const sum = seconds.reduce((total, value) => total + value, 0);
  const minutes = `last ${counted(Math.round(seconds.length / 60), "minute")}`;
  if (sum === 0) return `${minutes}: nothing ${verb}`;
  return `${minutes}: ${counted(sum, "token")} ${verb}, at most ${number(Math.max(...seconds))} in one second`;
}

/**
 * Breaks the line where the engine restarted.
 * @param {number[]} seconds @param {number} lastSecondOf @param {number[]} breaks seconds of the server's clock
 * @returns {(number|null)[]}
 */
export function withBreaks(seconds, lastSecondOf, breaks) {
  const first = lastSecondOf - seconds.length + 1;
  /** @type {(number|null)[]} */
  const out = [...seconds];
  for (const second of breaks) {
    if (second >= first && second <= lastSecondOf) out[second - first] = null;
  }
  return out;
}

/** The speeds as a table, newest first. @param {{read: number[], written: number[]}} speed @returns {[string, string, string][]} */
export function speedTable(speed) {
  /** @type {[string, string, string][]} */
  const rows = [];
  for (let end = speed.read.length; end > 0; end -= TABLE_STEP_S) {
    const from = Math.max(0, end - TABLE_STEP_S);
    const sum = (/** @type {number[]} */ values) => values.slice(from, end).reduce((a, b) => a + b, 0);
    const ago = speed.read.length - end;
    rows.push([`${span(ago + TABLE_STEP_S)} to ${span(ago)} ago`, number(sum(speed.read)), number(sum(speed.written))]);
  }
  return rows;
}

/** @param {Metrics} metrics */
export function contextModel(metrics) {
  const size = metrics.engine?.context;
  const live = metrics.live;
  const running = live.state === "reading" || live.state === "generating";
  const used = live.context_tokens;
  if (!known(size) || size <= 0) return { words: UNKNOWN, share: 0, detail: "the engine has not said its size" };
  if (!known(used)) return { words: `0 of ${number(size)} tokens`, share: 0, detail: "no conversation yet" };
  const share = Math.min(1, used / size);
  const detail = `${percent(share)} full, ${running ? "the running conversation" : "the last conversation"}`;
  return { words: `${number(used)} of ${number(size)} tokens`, share, detail };
}

/** Without the conversation cache: the server's own sums, of its window or else since it started. @param {Metrics} metrics */
export function reuseModel(metrics) {
  const cache = metrics.conversation_cache;
  const windowed = known(cache?.prompt_tokens) && cache.prompt_tokens > 0;
  const { prompt_tokens: prompt, reused_tokens: reused } = windowed ? cache : metrics.totals ?? {};
  if (!known(prompt) || !known(reused) || prompt === 0) return { words: UNKNOWN, share: 0, detail: "no request yet" };
  const when = windowed ? `last ${counted(cache.rows, "request")}` : "since the server started";
  const detail = `${number(reused)} of ${number(prompt)} prompt tokens were not read again (${when})`;
  return { words: percent(reused / prompt), share: reused / prompt, detail };
}

/** @param {Hardware|undefined} hardware */
export function cpuModel(hardware) {
  const cpu = hardware?.cpu;
  if (!cpu) return { words: UNKNOWN, share: 0, detail: "no reading" };
  return { words: percent(cpu.share), share: cpu.share, detail: known(cpu.threads) ? `of ${counted(cpu.threads, "thread")}` : "" };
}

/** @param {Hardware|undefined} hardware @returns {Gpu[]} */
export function gpusOf(hardware) {
  return hardware?.gpus ?? (hardware?.gpu ? [hardware.gpu] : []);
}

/** @param {Gpu} gpu */
export function gpuModel(gpu) {
  const { memory_used_bytes: used, memory_total_bytes: total } = gpu;
  const watts = known(gpu.power_watts) ? `${number(gpu.power_watts)} W` : UNKNOWN;
  const degrees = known(gpu.temperature_c) ? `${number(gpu.temperature_c)} °C` : UNKNOWN;
  return {
    name: gpu.name,
    words: `${percent(gpu.load_share)} busy`,
    memory: `${byteSize(used)} of ${byteSize(total)}`,
    share: known(used) && known(total) && total > 0 ? used / total : 0,
    detail: `${watts}, ${degrees}`,
  };
}

/** What the server did since it started. @param {Metrics} metrics @returns {[string, string][]} */
export function totalsModel(metrics) {
  const { totals, engine } = metrics;
  return [
    ["Requests", number(totals?.requests)],
    ["Prompt tokens", number(totals?.prompt_tokens)],
    ["of them reused", number(totals?.reused_tokens)],
    ["Written tokens", number(totals?.output_tokens)],
    ["Server runs for", known(totals?.since) ? span(metrics.time - totals.since) : UNKNOWN],
    ["Engine starts", number(engine?.starts)],
  ];
}

/** @param {Metrics} metrics what went wrong, newest first, at most 20 @returns {{time: number|null, id: string, text: string}[]} */
export function errorsModel(metrics) {
  const out = metrics.requests
    .filter((row) => row.finish === "error")
    .map((row) => ({ time: /** @type {number|null} */ (row.time), id: row.id, text: row.failure || "the engine gave no reason" }));
  const { failure, failure_time: at } = metrics.engine ?? {};
  const told = out.some((row) => row.text === failure && known(at) && (row.time ?? 0) >= at);
  if (failure && !told) out.push({ time: at ?? null, id: "engine", text: failure });
  return out.sort((a, b) => (b.time ?? Infinity) - (a.time ?? Infinity)).slice(0, ERRORS_MAX);
}
