// The monitor's tiles of memory: where it is, what the cache holds of its budget, what is available over the floor, and
// what was given back when it ran short.
import { availableLine, budgetStack, memoryStack } from "./cache_charts.js";
import { byId, draw, element, setText } from "./dom.js";
import { byteSize } from "./format.js";
import {
  AVAILABLE_HEADS, MEMORY_HEADS, availableModel, availableTable, budgetModel, memoryModel, memoryTable, pressureAbsence, pressureModel, withReading,
} from "./memory_models.js";
import { showTable, startToggle } from "./view_tools.js";

/** @typedef {import("./types").Metrics} Metrics */
/** @typedef {import("./types").CacheList} CacheList */

const PRESSURES_SHOWN = 5;

const view = {
  metrics: /** @type {Metrics|null} */ (null),
  list: /** @type {CacheList|null} */ (null),
  readings: /** @type {import("./memory_models.js").Reading[]} */ ([]),
  legend: "",
  pressures: "",
};

/** @param {Metrics} metrics */
function showWhere(metrics) {
  const model = memoryModel(metrics);
  const budget = budgetModel(metrics, view.list);
  setText("ram-words", model.words);
  draw("ram-stack", memoryStack(model));
  byId("ram-budget").hidden = budget === null;
  if (budget) {
    draw("ram-budget-stack", budgetStack(budget));
    setText("ram-budget-words", budget.summary);
  }
  const items = [...model.parts.map((part) => ({ ...part, kind: `legend part-${part.key}` })),
    ...model.lines.map((part) => ({ ...part, kind: `legend line-${part.key}` }))];
  const text = JSON.stringify(items);
  if (text !== view.legend) {
    view.legend = text;
    byId("ram-legend").replaceChildren(...items.map(({ name, bytes, kind }) =>
      element("li", { class: kind }, element("span", {}, name), element("b", {}, byteSize(bytes)))));
  }
  showTable("ram-table", MEMORY_HEADS, memoryTable(model, budget));
}

/** @param {Metrics} metrics */
function showAvailable(metrics) {
  const model = availableModel(view.readings, metrics);
  setText("available-words", model.words);
  setText("available-summary", model.summary);
  byId("available").classList.toggle("short", model.low);
  draw("available-chart", availableLine(model));
  showTable("available-table", AVAILABLE_HEADS, availableTable(view.readings));
  const events = pressureModel(metrics);
  const text = JSON.stringify(events);
  byId("pressure-empty").hidden = events.length > 0;
  setText("pressure-empty", pressureAbsence(metrics));
  if (text === view.pressures) return;
  view.pressures = text;
  const items = events.map(({ time, words }) => element("li", {}, element("span", { class: "quiet" }, time), ` ${words}`));
  byId("pressures").replaceChildren(...items.slice(0, PRESSURES_SHOWN));
  byId("pressures-more").replaceChildren(...items.slice(PRESSURES_SHOWN));
  byId("pressures-box").hidden = items.length <= PRESSURES_SHOWN;
}

/** @param {Metrics} metrics */
export function showMemory(metrics) {
  view.metrics = metrics;
  view.readings = withReading(view.readings, metrics);
  showWhere(metrics);
  const on = metrics.conversation_cache?.enabled === true;
  byId("available").hidden = !on;
  if (on) showAvailable(metrics);
}

/** @param {CacheList|null} list of GET /cache */
export function noteParked(list) {
  view.list = list;
  if (view.metrics) showWhere(view.metrics);
}

export function startMemory() {
  const again = () => { if (view.metrics) showMemory(view.metrics); };
  startToggle("ram", again);
  startToggle("available", again);
}
