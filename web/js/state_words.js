// What the engine is doing, in words: pill, title, favicon, the sentence of the Now tile. Pure functions of the
// `live` object of /metrics (see types.d.ts).
import { UNKNOWN, counted, known, number, percent, rate, span } from "./format.js";

/** @typedef {import("./types").Live} Live */

const ETA_SHOWN_MAX_S = 120; // of an answer: only its length limit is known, so a longer bound says nothing
const MARKS = { idle: "ring", reading: "half", generating: "full", loading: "bars", unloaded: "ring", failed: "cross" };
const COLORS = { ring: "#1d7a6b", half: "#9a6200", full: "#1d7a6b", bars: "#3a5fb0", cross: "#b3261e" };

/** @param {Live} live @returns {number|null} 0..1 */
export function progressOf(live) {
  if (live.state === "reading") return live.prompt_tokens > 0 ? Math.min(1, live.prompt_read / live.prompt_tokens) : 0;
  if (live.state === "loading") return known(live.load_progress) ? live.load_progress : null;
  return null;
}

/** @param {Live} live @returns {number|null} seconds of an answer until its length limit, at most */
function answerBound(live) {
  if (!known(live.tok_s) || live.tok_s <= 0 || live.max_tokens <= 0) return null;
  const seconds = (live.max_tokens - live.generated) / live.tok_s;
  return seconds >= 0 && seconds <= ETA_SHOWN_MAX_S ? seconds : null;
}

/** @param {Live} live */
function readingWords(live) {
  const left = known(live.eta_s) ? `, about ${span(live.eta_s)} left` : "";
  const far = `${number(live.prompt_read)} of ${number(live.prompt_tokens)} tokens`;
  return `Reading the prompt: ${far} (${percent(progressOf(live))}), for ${span(live.elapsed_s)}${left}`;
}

/** @param {Live} live */
function writingWords(live) {
  const limit = live.max_tokens > 0 ? ` of at most ${number(live.max_tokens)}` : "";
  const bound = answerBound(live);
  const left = bound === null ? "" : `, at most ${span(bound)} left`;
  const speed = known(live.tok_s) && live.tok_s > 0 ? ` at ${rate(live.tok_s)}` : "";
  return `Answering: ${number(live.generated)}${limit} tokens${speed}, for ${span(live.elapsed_s)}${left}`;
}

/** @param {Live} live */
function loadingWords(live) {
  const words = {
    "loading the model": "Loading the model", "starting the engine": "Starting the engine",
    "preparing the load": "Preparing the load",
  };
  const phase = words[/** @type {keyof typeof words} */ (live.phase)] ?? "Restarting the engine";
  const share = progressOf(live);
  const far = share === null ? "" : ` (${percent(share)})`;
  const left = known(live.eta_s) ? `, about ${span(live.eta_s)} left` : "";
  const why = live.failure ? `. It ended: ${live.failure}` : "";
  return `${phase}${far}${left}${why}`;
}

/** @param {Live} live */
function unloadedWords(live) {
  if (live.phase === "unloading the model") return "Unloading the model";
  const why = live.failure ? `. The last load was refused: ${live.failure}` : "";
  const next = live.phase === "stopped" ? "" : ": the next request loads it";
  return `No model is loaded${next}${why}`;
}

/** One sentence. @param {Live} live */
export function sentence(live) {
  switch (live.state) {
    case "idle":
      return "Ready: the engine waits for a request";
    case "reading":
      return readingWords(live);
    case "generating":
      return writingWords(live);
    case "loading":
      return loadingWords(live);
    case "failed":
      return `The engine does not start: ${live.failure || "no reason is known"}`;
    case "unloaded":
      return unloadedWords(live);
    default:
      return live.phase || UNKNOWN;
  }
}

/** A few words for the header and the title. @param {Live|null} live null: no connection */
export function pill(live) {
  if (!live) return { text: "no connection", mark: "cross", bad: true };
  const share = progressOf(live);
  const far = share === null ? "" : ` ${percent(share)}`;
  const left = known(live.eta_s) && (live.state === "reading" || live.state === "loading") ? `, ${span(live.eta_s)} left` : "";
  const words = {
    idle: "ready", reading: `reading${far}${left}`, generating: `answering, ${counted(live.generated, "token")}`,
    loading: `${live.failure ? "restarting" : "loading"}${far}${left}`, unloaded: "not loaded", failed: "failed",
  };
  const state = /** @type {keyof typeof words} */ (live.state);
  return { text: words[state] ?? UNKNOWN, mark: MARKS[state] ?? "ring", bad: live.state === "failed" };
}

/** What a screen reader hears: without numbers that run. @param {Live|null} live */
export function spokenState(live) {
  if (!live) return "No connection to the server";
  const words = {
    idle: "Ready", reading: "Reading a prompt", generating: "Answering", loading: "Loading", unloaded: "No model is loaded",
    failed: "The engine does not start",
  };
  return words[/** @type {keyof typeof words} */ (live.state)] ?? UNKNOWN;
}

/** @param {Live} live */
export function queueWords(live) {
  const waiting = live.queued > 0 ? `${counted(live.queued, "request")} waiting` : "Nobody is waiting";
  const leaves = known(live.unload_in_s) ? `. The model is unloaded in ${span(live.unload_in_s)} unless a request comes` : "";
  return waiting + leaves;
}

/**
 * The favicon as a picture of its own: a different shape for each state, not only a colour.
 * @param {string} mark
 */
export function favicon(mark) {
  const color = COLORS[/** @type {keyof typeof COLORS} */ (mark)] ?? COLORS.ring;
  const shapes = {
    ring: `<circle cx="16" cy="16" r="11" fill="none" stroke="${color}" stroke-width="5"/>`,
    half: `<circle cx="16" cy="16" r="11" fill="none" stroke="${color}" stroke-width="4"/><path d="M16 5a11 11 0 0 1 0 22z" fill="${color}"/>`,
    full: `<circle cx="16" cy="16" r="13" fill="${color}"/>`,
    bars: `<path d="M4 20h6v8H4zM13 12h6v16h-6zM22 4h6v24h-6z" fill="${color}"/>`,
    cross: `<path d="M6 6l20 20M26 6L6 26" stroke="${color}" stroke-width="6"/>`,
  };
  const shape = shapes[/** @type {keyof typeof shapes} */ (mark)] ?? shapes.ring;
  const text = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">${shape}</svg>`;
  return `data:image/svg+xml,${encodeURIComponent(text)}`;
}
