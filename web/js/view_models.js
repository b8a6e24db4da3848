// From the JSON of /metrics to what the page shows. Pure functions; may divide two given numbers and
// nothing more. Unknown is "–", never 0.

export const UNKNOWN = "–";

/** @param {number|null|undefined} value @param {number} [digits] */
export function number(value, digits = 0) {
  if (typeof value !== "number" || !Number.isFinite(value)) return UNKNOWN;
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** @param {number|null|undefined} bytes */
export function gib(bytes) {
  return typeof bytes === "number" ? `${number(bytes / 2 ** 30, 1)} GiB` : UNKNOWN;
}

/** @param {number|null|undefined} tokens @param {number|null|undefined} ms */
export function tokensPerSecond(tokens, ms) {
  if (typeof tokens !== "number" || typeof ms !== "number" || ms <= 0 || tokens <= 0) return UNKNOWN;
  return `${number((tokens / ms) * 1000)} tok/s`;
}

/** @param {number|null|undefined} ms */
export function duration(ms) {
  if (typeof ms !== "number") return UNKNOWN;
  return ms < 1000 ? `${number(ms)} ms` : `${number(ms / 1000, 1)} s`;
}

/** @param {any} live the `live` object of /metrics */
export function pill(live) {
  const words = {
    idle: "ready", reading: "reading", generating: "answering", loading: "loading", unloaded: "unloaded",
    failed: "failed",
  };
  const state = live?.state;
  return { text: words[state] ?? UNKNOWN, bad: state === "failed" };
}

/** What the engine is doing, in words, and how far it is (null: no bar). @param {any} live */
export function nowModel(live) {
  const queue = live.queued > 0 ? `${number(live.queued)} waiting` : "";
  const seconds = `${number(live.elapsed_s, 1)} s`;
  if (live.state === "reading") {
    const share = live.prompt_tokens > 0 ? live.prompt_read / live.prompt_tokens : 0;
    const words = `reading the prompt ${number(live.prompt_read)}/${number(live.prompt_tokens)}, ${seconds}`;
    return { words, share, queue };
  }
  if (live.state === "generating") {
    const share = live.max_tokens > 0 ? live.generated / live.max_tokens : null;
    return { words: `answering, ${number(live.generated)} tokens, ${seconds}`, share, queue };
  }
  if (live.state === "loading") {
    const left = typeof live.eta_s === "number" ? `, ${number(live.eta_s)} s left` : "";
    return { words: `${live.phase}${left}`, share: live.load_progress, queue };
  }
  return { words: live.failure && live.state === "failed" ? live.failure : live.phase, share: null, queue };
}

/**
 * @param {{read_tokens: number, written_tokens: number}[]} samples one a second, oldest first
 * @param {"read_tokens"|"written_tokens"} key
 */
export function sparkModel(samples, key) {
  const values = samples.map((sample) => sample[key]);
  const top = Math.max(1, ...values);
  const points = values.map((value, i) => `${i},${(19 - (value / top) * 18).toFixed(2)}`).join(" ");
  const best = Math.max(0, ...values);
  const summary = best > 0 ? `last minute, at most ${number(best)} tokens in a second` : "nothing in the last minute";
  return { points, summary };
}

/** Speeds of the newest request that has each. @param {any[]} rows newest first */
export function speedModel(rows) {
  const read = rows.find((row) => row.prompt_read > 0 && row.prompt_ms > 0);
  const wrote = rows.find((row) => row.output_tokens > 1 && row.decode_ms > 0);
  return {
    read: tokensPerSecond(read?.prompt_read, read?.prompt_ms),
    wrote: tokensPerSecond(wrote?.output_tokens, wrote?.decode_ms),
  };
}

/** @param {any} metrics */
export function contextModel(metrics) {
  const size = metrics.engine?.context;
  const live = metrics.live ?? {};
  const row = metrics.requests?.[0];
  let used = null;
  if (live.state === "reading" || live.state === "generating") used = live.prompt_tokens + live.generated;
  else if (row && typeof row.prompt_tokens === "number") used = row.prompt_tokens + row.output_tokens;
  if (typeof size !== "number" || used === null) return { words: UNKNOWN, share: 0 };
  return { words: `${number(used)} of ${number(size)} tokens`, share: used / size };
}

/** @param {any} hardware */
export function machineModel(hardware) {
  const ram = hardware?.ram;
  return [
    ["CPU", hardware?.cpu ? `${number(hardware.cpu.share * 100)} %` : UNKNOWN],
    ["RAM free", ram ? `${gib(ram.available_bytes)} of ${gib(ram.total_bytes)}` : UNKNOWN],
    ["Engine", ram ? gib(ram.engine_bytes) : UNKNOWN],
    ["GPU", hardware?.gpu ? String(hardware.gpu.name) : UNKNOWN],
  ];
}

/** @param {any} row one of `requests` */
export function requestModel(row) {
  return [
    ["Time", new Date(row.time * 1000).toLocaleTimeString("en-GB")],
    ["Prompt", number(row.prompt_tokens)],
    ["Reused", number(row.reused)],
    ["Written", number(row.output_tokens)],
    ["First token", duration(row.ttft_ms)],
    ["Speed", tokensPerSecond(row.output_tokens, row.decode_ms)],
    ["End", row.finish ?? UNKNOWN],
  ];
}
