// The monitor and the header's state: polls /metrics, never while the tab is hidden, and hands the view models to the
// page. Others listen with onMetrics.
import { getJson } from "./api.js";
import { openClicked, showCache, startCache } from "./cache_view.js";
import { sparkline } from "./charts.js";
import { byId, draw, element, setText, showPairs, svg } from "./dom.js";
import { showEngineButtons, startEngineButtons } from "./engine_buttons.js";
import { FIRST_HEADS, GROUPS, firstTokenModel, firstTokenTable } from "./first_token.js";
import { clock } from "./format.js";
import { noteParked, showMemory, startMemory } from "./memory_view.js";
import { onParked, onParkedChange, showParked } from "./parked_view.js";
import { legendMark, scatter } from "./plots.js";
import { openRequest, showRequests, startRequests } from "./requests_view.js";
import { favicon, pill, progressOf, queueWords, sentence, spokenState } from "./state_words.js";
import {
  contextModel, cpuModel, errorsModel, gpuModel, gpusOf, reuseModel, speedModel, speedSummary, speedTable, totalsModel,
  withBreaks,
} from "./view_models.js";
import { showTable, startToggle } from "./view_tools.js";

/** @typedef {import("./types").Metrics} Metrics */
/** @typedef {import("./types").Gpu} Gpu */

const BUSY_POLL_MS = 1000;
const IDLE_POLL_MS = 2000;
const GLYPHS = { ring: "○", half: "◐", full: "●", bars: "▮", cross: "✕" };
const SPOKEN_MS = 5000; // a screen reader hears at most one state in this time
const ROWS_MIN = 50; // what the server gives without being asked for a number

const seen = {
  epoch: -1,
  breaks: /** @type {number[]} */ ([]), // seconds of the server's clock at which another engine began
  spokenAt: 0,
  spoken: "",
  metrics: /** @type {Metrics|null} */ (null),
};
/** @type {((metrics: Metrics|null) => void)[]} */
const listeners = [];

/** @param {(metrics: Metrics|null) => void} listener null: no connection */
export function onMetrics(listener) {
  listeners.push(listener);
}

/** @param {Metrics|null} metrics */
function showState(metrics) {
  const live = metrics?.live ?? null;
  const { text, mark, bad } = pill(live);
  setText("state-text", text);
  byId("state").classList.toggle("bad", bad);
  setText("state-mark", GLYPHS[/** @type {keyof typeof GLYPHS} */ (mark)] ?? "");
  document.title = `${text} · Strata`;
  const icon = favicon(mark);
  if (byId("favicon").getAttribute("href") !== icon) byId("favicon").setAttribute("href", icon);
  const spoken = spokenState(live);
  if (spoken !== seen.spoken && Date.now() - seen.spokenAt >= SPOKEN_MS) {
    seen.spoken = spoken;
    seen.spokenAt = Date.now();
    setText("state-spoken", spoken);
  }
}

/** @param {Metrics} metrics */
function showNow(metrics) {
  const { live } = metrics;
  setText("now-words", sentence(live));
  setText("now-queue", queueWords(live));
  const share = progressOf(live);
  const bar = byId("now-bar");
  bar.hidden = share === null;
  fill(bar.firstElementChild, share ?? 0);
  bar.setAttribute("aria-valuenow", String(Math.round((share ?? 0) * 100)));
}

/** @param {HTMLElement} bar @param {number} share */
function fill(bar, share) {
  const width = `${Math.round(Math.min(1, Math.max(0, share)) * 1000) / 10}%`;
  if (bar.style.width !== width) bar.style.width = width;
}

/** @param {string} name @param {{words: string, share: number, detail: string}} model */
function showMeter(name, model) {
  setText(`${name}-words`, model.words);
  setText(`${name}-detail`, model.detail);
  fill(byId(`${name}-fill`), model.share);
}

/** @param {Metrics} metrics */
function showSpeeds(metrics) {
  const model = speedModel(metrics);
  setText("read", model.read);
  setText("read-when", model.readWhen);
  setText("wrote", model.wrote);
  setText("wrote-when", model.wroteWhen);
  const speed = metrics.speed;
  if (!speed) return;
  const lines = /** @type {[string, number[], string][]} */ ([
    ["wrote", speed.written, "written"], ["read", speed.read, "read"],
  ]);
  for (const [name, values, verb] of lines) {
    const summary = speedSummary(values, verb);
    setText(`${name}-summary`, summary);
    draw(`${name}-chart`, sparkline(withBreaks(values, speed.last_second, seen.breaks), summary));
  }
  const rows = speedTable(speed).map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, cell))));
  byId("speeds").tBodies[0].replaceChildren(...rows);
}

/** @param {Gpu} gpu */
function gpuTile(gpu) {
  const model = gpuModel(gpu);
  const bar = element("span");
  fill(bar, model.share);
  return element("section", { class: "tile", "aria-label": model.name },
    element("h2", {}, model.name),
    element("p", { class: "middle" }, model.words),
    element("div", { class: "bar" }, bar),
    element("p", { class: "quiet" }, `memory ${model.memory}`),
    element("p", { class: "quiet" }, model.detail));
}

/** @param {Metrics} metrics */
function showErrors(metrics) {
  const errors = errorsModel(metrics);
  byId("errors-empty").hidden = errors.length > 0;
  byId("errors").replaceChildren(...errors.map(({ time, id, text }) =>
    element("li", {}, element("span", { class: "quiet" }, `${time === null ? "now" : clock(time)} ${id}`), element("p", {}, text))));
  const lines = metrics.engine?.last_lines ?? [];
  byId("log-box").hidden = lines.length === 0;
  setText("log", lines.join("\n"));
}

/** @param {Metrics} metrics */
function showFirst(metrics) {
  const model = firstTokenModel(metrics.requests);
  draw("first-chart", scatter(model));
  setText("first-summary", model.summary);
  byId("first-unknown").hidden = !model.points.some((point) => point.kind === "unknown");
  for (const id of ["first-y", "first-x"]) byId(id).hidden = model.points.length === 0;
  const rows = firstTokenTable(metrics.requests);
  showTable("first-table", FIRST_HEADS, rows.map((row) => row.cells), (i) => () => openRequest(rows[i].id));
}

function startFirst() {
  startToggle("first", () => { if (seen.metrics) showFirst(seen.metrics); });
  byId("first-chart").addEventListener("click", openClicked);
  byId("first-legend").replaceChildren(...Object.entries(GROUPS).map(([kind, words]) =>
    element("li", kind === "unknown" ? { id: "first-unknown", hidden: "" } : {}, svg(legendMark(kind, "dot")), words)));
}

/** @param {Metrics} metrics */
function show(metrics) {
  seen.metrics = metrics;
  if (seen.epoch >= 0 && metrics.engine.epoch !== seen.epoch && metrics.speed) seen.breaks.push(metrics.speed.last_second);
  seen.epoch = metrics.engine.epoch;
  showNow(metrics);
  showSpeeds(metrics);
  showMeter("context", contextModel(metrics));
  showMeter("reuse", reuseModel(metrics));
  showMeter("cpu", cpuModel(metrics.hardware));
  showCache(metrics);
  showMemory(metrics);
  showParked(metrics);
  showEngineButtons(metrics);
  const gpus = gpusOf(metrics.hardware);
  byId("gpus").hidden = gpus.length === 0;
  byId("gpus").replaceChildren(...gpus.map(gpuTile));
  showRequests(metrics.requests);
  showFirst(metrics);
  showErrors(metrics);
  showPairs("totals", totalsModel(metrics));
}

function showLost() {
  setText("now-words", "No connection to the server. This page tries again every second.");
  byId("now-bar").hidden = true;
  setText("now-queue", "");
}

/** The window of the cache may be longer than what the server gives without being asked. */
function address() {
  const window = seen.metrics?.conversation_cache?.window ?? 0;
  return window > ROWS_MIN ? `/metrics?rows=${window}` : "/metrics";
}

async function poll() {
  let wait = BUSY_POLL_MS;
  polling = true;
  if (!document.hidden) {
    /** @type {Metrics|null} */
    let metrics = null;
    try {
      metrics = await getJson(address());
    } catch {
      showLost();
    }
    showState(metrics);
    if (metrics) {
      show(metrics);
      if (metrics.live.state === "idle") wait = IDLE_POLL_MS;
    }
    for (const listener of listeners) listener(metrics);
  }
  polling = false;
  timer = setTimeout(poll, wait);
}

let polling = false;
/** @type {ReturnType<typeof setTimeout>|undefined} */
let timer;

/** Looks at once, for whoever has just changed what the engine does. */
export function lookNow() {
  if (polling) return;
  clearTimeout(timer);
  timer = setTimeout(poll, 50);
}

export function startMonitor() {
  startRequests();
  startCache();
  startMemory();
  startFirst();
  startEngineButtons(lookNow);
  onParked(noteParked);
  onParkedChange(lookNow);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) lookNow();
  });
  poll();
}
