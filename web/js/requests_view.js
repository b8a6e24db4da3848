// The table of recent requests: sortable by its headings, each row opens its detail. Rows keep their nodes and focus
// while new ones come.
import { waterfall } from "./charts.js";
import { byId, element, showNodes, svg } from "./dom.js";
import { counted, duration } from "./format.js";
import { saveFile } from "./save_file.js";
import { COLUMNS, csv, detailOf, endWord, filtered, sorted, stepsOf } from "./request_rows.js";

/** @typedef {import("./types").RequestRow} RequestRow */

const view = {
  rows: /** @type {RequestRow[]} */ ([]),
  key: "time",
  ascending: false,
  open: /** @type {Set<string>} */ (new Set()), // ids whose detail is shown
  words: "",
  shown: "",
  nodes: /** @type {Map<string, HTMLElement[]>} */ (new Map()), // of each row that is shown, by what they show
};

function buildHead() {
  const cells = COLUMNS.map((column) => {
    const sort = element("button", { type: "button", class: "sort", title: column.title }, column.name);
    sort.addEventListener("click", () => {
      view.ascending = view.key === column.key ? !view.ascending : column.key === "end";
      view.key = column.key;
      render();
    });
    return element("th", { scope: "col", "data-key": column.key }, sort);
  });
  byId("requests").tHead.rows[0].replaceChildren(...cells);
}

function showOrder() {
  for (const cell of byId("requests").tHead.rows[0].cells) {
    const own = cell.dataset.key === view.key;
    if (own) cell.setAttribute("aria-sort", view.ascending ? "ascending" : "descending");
    else cell.removeAttribute("aria-sort");
  }
  byId("sort-key").value = view.key;
}

/** @param {RequestRow} row */
function detailRow(row) {
  const steps = stepsOf(row);
  const whole = Math.max(row.duration_s * 1000, ...steps.map((step) => step.to));
  const words = steps.map((step) => `${step.name} ${duration(step.to - step.from)}`);
  const chart = svg(waterfall(steps, whole, `Where the time went: ${words.join(", ")}`));
  const legend = steps.map((step) =>
    element("li", { class: `legend step-${step.kind}` }, `${step.name} `, element("b", {}, duration(step.to - step.from))));
  const pairs = detailOf(row).map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value)));
  const cell = element("td", { colspan: String(COLUMNS.length), id: `detail-${row.id}` },
    element("div", { class: "waterfall-box" }, chart, element("ol", { class: "steps" }, ...legend)),
    element("dl", { class: "pairs" }, ...pairs));
  return element("tr", { class: "detail" }, cell);
}

/** @param {RequestRow} row */
function rowNodes(row) {
  const open = view.open.has(row.id);
  const toggle = element("button", {
    type: "button", class: "toggle", "aria-expanded": String(open), "data-id": row.id,
    ...(open ? { "aria-controls": `detail-${row.id}` } : {}),
  }, COLUMNS[0].text(row), element("span", { class: "hidden" }, open ? ", hide the detail" : ", show the detail"));
  const cells = COLUMNS.map((column, i) =>
    element("td", { "data-name": column.name, class: `c-${column.key}` }, i === 0 ? toggle : column.text(row)));
  const line = element("tr", { class: `request ${row.finish === "error" ? "failed" : ""}` }, ...cells);
  line.addEventListener("click", (event) => {
    if (window.getSelection()?.toString()) return;
    event.preventDefault();
    if (!view.open.delete(row.id)) view.open.add(row.id);
    render();
    focusRow(row.id);
  });
  return open ? [line, detailRow(row)] : [line];
}

/** @param {string} id */
function focusRow(id) {
  const button = /** @type {HTMLElement|null} */ (byId("requests").querySelector(`button[data-id="${CSS.escape(id)}"]`));
  button?.focus({ preventScroll: true });
}

/** Shows the detail of a request, wherever its row is. @param {string} id */
export function openRequest(id) {
  if (!view.rows.some((row) => row.id === id)) return;
  view.open.add(id);
  view.words = "";
  byId("filter").value = "";
  render();
  focusRow(id);
  document.getElementById(`detail-${id}`)?.scrollIntoView({ block: "center" });
}

function render() {
  const rows = sorted(filtered(view.rows, view.words), view.key, view.ascending);
  const text = JSON.stringify([rows, view.key, view.ascending, [...view.open]]);
  if (text === view.shown) return;
  view.shown = text;
  const body = byId("requests").tBodies[0];
  const focused = body.contains(document.activeElement)
    ? /** @type {HTMLElement} */ (document.activeElement).dataset.id
    : undefined;
  view.nodes = new Map(rows.map((row) => {
    const key = JSON.stringify([row, view.open.has(row.id)]);
    return [key, view.nodes.get(key) ?? rowNodes(row)];
  }));
  showNodes(body, [...view.nodes.values()].flat());
  if (focused) focusRow(focused);
  showOrder();
  const failed = rows.filter((row) => endWord(row) === "error").length;
  byId("requests-summary").textContent = rows.length === 0
    ? (view.rows.length === 0 ? "No request yet." : "No request has these words.")
    : `${counted(rows.length, "request")}, ${failed === 0 ? "none" : failed} with an error`;
  byId("requests-box").hidden = rows.length === 0;
}

/** @param {RequestRow[]} rows newest first */
export function showRequests(rows) {
  view.rows = rows;
  render();
}

export function startRequests() {
  buildHead();
  const select = byId("sort-key");
  select.replaceChildren(...COLUMNS.map((column) => element("option", { value: column.key }, column.name)));
  select.addEventListener("change", () => {
    view.key = select.value;
    render();
  });
  byId("sort-turn").addEventListener("click", () => {
    view.ascending = !view.ascending;
    render();
  });
  byId("filter").addEventListener("input", () => {
    view.words = byId("filter").value;
    render();
  });
  byId("requests-csv").addEventListener("click", () => saveFile("strata-requests.csv", "text/csv", csv(view.rows)));
  byId("requests-json").addEventListener("click", () =>
    saveFile("strata-requests.json", "application/json", JSON.stringify(view.rows, null, 1)));
}
