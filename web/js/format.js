// Numbers as words. Pure. Unknown is "–", never 0.

export const UNKNOWN = "–";

/** @param {unknown} value @returns {value is number} */
export function known(value) {
  return typeof value === "number" && Number.isFinite(value);
}

/** @param {number|null|undefined} value @param {number} [digits] */
export function number(value, digits = 0) {
  if (!known(value)) return UNKNOWN;
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** @param {number|null|undefined} count @param {string} one @param {string} [many] */
export function counted(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

/** @param {number|null|undefined} bytes */
export function byteSize(bytes) {
  if (!known(bytes)) return UNKNOWN;
  if (bytes < 2 ** 20) return `${number(bytes / 2 ** 10)} KiB`;
  return bytes < 2 ** 30 ? `${number(bytes / 2 ** 20)} MiB` : `${number(bytes / 2 ** 30, 1)} GiB`;
}

/** @param {number|null|undefined} share 0..1 */
export function percent(share) {
  return known(share) ? `${number(share * 100)} %` : UNKNOWN;
}

/** @param {number|null|undefined} value tokens per second */
export function rate(value) {
  if (!known(value)) return UNKNOWN;
  return `${number(value, value < 10 ? 1 : 0)} tok/s`;
}

/** @param {number|null|undefined} tokens @param {number|null|undefined} ms */
export function tokensPerSecond(tokens, ms) {
  if (!known(tokens) || !known(ms) || ms <= 0 || tokens <= 0) return UNKNOWN;
  return rate((tokens / ms) * 1000);
}

/** @param {number|null|undefined} ms */
export function duration(ms) {
  if (!known(ms)) return UNKNOWN;
  if (ms < 1000) return `${number(ms)} ms`;
  return ms < 60_000 ? `${number(ms / 1000, 1)} s` : span(ms / 1000);
}

/** Whole seconds, minutes or hours. @param {number|null|undefined} seconds */
export function span(seconds) {
  if (!known(seconds)) return UNKNOWN;
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} min`;
}

/** @param {number|null|undefined} seconds since 1970 */
export function clock(seconds) {
  return known(seconds) ? new Date(seconds * 1000).toLocaleTimeString("en-GB") : UNKNOWN;
}

/** 7_600_000_000 as "7.6 B". @param {number|null|undefined} count */
export function magnitude(count) {
  if (!known(count)) return UNKNOWN;
  const steps = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "K"]];
  for (const [size, name] of /** @type {[number, string][]} */ (steps)) {
    if (count >= size) return `${number(count / size, 1)} ${name}`;
  }
  return number(count);
}
