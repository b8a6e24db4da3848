// The conversation cache on the monitor: the four bars under the context and the lanes of conversations. Hidden without
// the cache.
import { hitStrip } from "./cache_charts.js";
import { BAR_HEADS, barsModel, barsTable, cacheOf, cacheSentence, restartWords } from "./cache_models.js";
import { sparkline } from "./charts.js";
import { byId, draw, element, setText, svg } from "./dom.js";
import { LANE_HEADS, MARK_WORDS, lanesModel } from "./lanes.js";
import { lanesChart, legendMark } from "./plots.js";
import { openRequest } from "./requests_view.js";
import { hint, showTable, startHints, startToggle } from "./view_tools.js";

/** @typedef {import("./types").Metrics} Metrics */
/** @typedef {import("./cache_models.js").Bar} Bar */

const BARS = [
  ["reused", "prompt reused"], ["hits", "a hit on a switch"], ["parked", "a parked conversation"], ["memory", "the cache's memory"],
];

/** @type {Metrics|null} */
let shown = null;
let namesShown = "";

/** @param {string} key @param {string} about */
function barTile(key, about) {
  return element("section", { class: "tile", id: `cache-${key}`, "aria-labelledby": `cache-${key}-head` },
    element("div", { class: "tip-row" }, element("h3", { id: `cache-${key}-head` }), hint(`cache-${key}-tip`, about)),
    element("p", { id: `cache-${key}-words`, class: "middle" }),
    element("div", { class: "bar" }, element("span", { id: `cache-${key}-fill` })),
    element("div", { id: `cache-${key}-line`, class: "chart slim" }),
    element("p", { id: `cache-${key}-detail`, class: "quiet" }));
}

/** @param {Bar} bar */
function showBar({ key, head, words, share, detail, tip, line, top, summary }) {
  setText(`cache-${key}-head`, head);
  setText(`cache-${key}-words`, words);
  setText(`cache-${key}-detail`, detail);
  setText(`cache-${key}-tip`, tip);
  byId(`cache-${key}-fill`).style.width = `${Math.round(share * 1000) / 10}%`;
  draw(`cache-${key}-line`, key === "hits" ? hitStrip(line, summary) : sparkline(line, summary, top));
}

/** @param {Metrics} metrics */
function showLanes(metrics) {
  const model = lanesModel(metrics);
  const names = JSON.stringify(model.lanes);
  if (names !== namesShown) {
    namesShown = names;
    byId("lanes-names").replaceChildren(...model.lanes.map(({ name, words, live }) =>
      element("li", live ? { class: "live" } : {},
        element("b", {}, name), ...(live ? [element("span", { class: "quiet" }, " live")] : []),
        element("span", { class: "words", title: words }, words))));
  }
  draw("lanes-plot", lanesChart(model));
  setText("lanes-first", model.first);
  setText("lanes-last", model.last);
  setText("lanes-summary", model.summary);
  showTable("lanes-table", LANE_HEADS, model.table);
}

function showLegend() {
  const marks = Object.entries(MARK_WORDS).map(([kind, words]) => element("li", {}, svg(legendMark(kind, "sign")), words));
  byId("lanes-legend").replaceChildren(
    element("li", { class: "legend step-read" }, "reading"), element("li", { class: "legend step-write" }, "answering"),
    ...marks,
    element("li", {}, svg(legendMark("pressure", "sign")), "memory below the floor"),
    element("li", {}, svg(legendMark("restart", "sign")), "engine restart"),
    element("li", { class: "key-hit" }, "switch, a hit"), element("li", { class: "key-miss" }, "switch, a miss"));
}

/** @param {Metrics} metrics */
export function showCache(metrics) {
  shown = metrics;
  const on = cacheOf(metrics) !== null;
  byId("cache-block").hidden = !on;
  byId("lanes").hidden = !on;
  byId("reuse").hidden = on;
  byId("monitor").classList.toggle("with-cache", on);
  if (!on) return;
  setText("cache-sentence", cacheSentence(metrics));
  const restart = restartWords(metrics);
  setText("cache-restart", restart);
  byId("cache-restart").hidden = restart === "";
  barsModel(metrics).forEach(showBar);
  showTable("cache-table", BAR_HEADS, barsTable(metrics));
  showLanes(metrics);
}

/** Opens the request whose mark was clicked. @param {MouseEvent} event */
export function openClicked(event) {
  const mark = /** @type {Element} */ (event.target).closest("[data-id]");
  const id = mark?.getAttribute("data-id");
  if (id) openRequest(id);
}

export function startCache() {
  byId("cache-chart").replaceChildren(...BARS.map(([key, about]) => barTile(key, about)));
  const again = () => { if (shown) showCache(shown); };
  startToggle("cache", again);
  startToggle("lanes", again);
  startHints();
  showLegend();
  byId("lanes-plot").addEventListener("click", openClicked);
}
