// The list of parked conversations with drop and pin. Asks GET /cache when something may have changed, one question at
// a time; hidden without the cache or when the server has no such list.
import { getJson, send } from "./api.js";
import { confirmed } from "./dialog.js";
import { button, byId, element, setText } from "./dom.js";
import { PARKED_HEADS, entryCells, entryName, parkedWords } from "./parked_models.js";
import { tableNode } from "./view_tools.js";

/** @typedef {import("./types").Metrics} Metrics */
/** @typedef {import("./types").CacheList} CacheList */
/** @typedef {import("./types").CacheEntry} CacheEntry */

const EACH_MS = 5000; // ages grow though nothing happens

const view = {
  list: /** @type {CacheList|null} */ (null),
  metrics: /** @type {Metrics|null} */ (null),
  asking: false,
  absent: false, // this server has no list
  askedAt: 0,
  mark: "",
  busyNote: false, // the note is about a request that runs
  rows: "", // which entries the table has, each with its buttons
};
/** @type {((list: CacheList|null) => void)[]} */
const listeners = [];

/** @param {(list: CacheList|null) => void} listener */
export function onParked(listener) {
  listeners.push(listener);
}

/** @type {(() => void)[]} */
const changes = [];

/** After a drop or a pin. @param {() => void} listener */
export function onParkedChange(listener) {
  changes.push(listener);
}

/** @param {CacheEntry} entry @returns {HTMLElement} */
function actions(entry) {
  const name = entryName(entry);
  const path = `/cache/${entry.entry}`;
  const pin = button(entry.pinned ? "Unpin" : "Pin", () => tell("POST", `${path}/pin`, { pinned: !entry.pinned }),
    { class: "small", "data-act": `pin ${entry.entry}` });
  pin.append(element("span", { class: "hidden" }, ` ${name}`));
  const drop = button("Drop", async () => {
    if (await confirmed(`Drop “${name}” from memory? Its next turn is read again.`, "Drop")) tell("DELETE", path);
  }, { class: "small", "data-act": `drop ${entry.entry}` });
  drop.append(element("span", { class: "hidden" }, ` ${name}`));
  return element("span", { class: "row" }, pin, drop);
}

/** The same row with newer figures: its buttons stay, so a click that began is not lost. @param {HTMLElement} place @param {CacheEntry} entry @param {number} row */
function refreshCells(place, entry, row) {
  const cells = place.querySelectorAll("tbody tr")[row].children;
  entryCells(entry).forEach((text, i) => {
    if (cells[i].textContent !== text) cells[i].textContent = text;
  });
}

/** The same button, or that of the row which has moved up, or the heading when the list is empty. @param {HTMLElement} place @param {string} act @param {number} row */
function focusAgain(place, act, row) {
  const kind = act.split(" ")[0];
  const rows = place.querySelectorAll("tbody tr");
  const next = rows[Math.min(row, rows.length - 1)];
  const button = place.querySelector(`[data-act="${CSS.escape(act)}"]`) ?? next?.querySelector(`[data-act^="${kind} "]`);
  /** @type {HTMLElement} */ (button ?? byId("parked-head")).focus({ preventScroll: true });
}

function render() {
  if (!view.metrics) return;
  setText("parked-words", parkedWords(view.list, view.metrics));
  const place = byId("parked-box");
  const entries = view.list?.entries ?? [];
  const rows = JSON.stringify(entries.map((each) => [each.entry, each.pinned, entryName(each)]));
  if (rows === view.rows) {
    entries.forEach((entry, i) => refreshCells(place, entry, i));
    return;
  }
  view.rows = rows;
  const focused = /** @type {HTMLElement|null} */ (document.activeElement)?.dataset?.act;
  const row = [...place.querySelectorAll("tbody tr")].findIndex((each) => each.contains(document.activeElement));
  place.replaceChildren(...(entries.length === 0 ? [] : [
    tableNode([...PARKED_HEADS, "Do"], entries.map((entry) => [...entryCells(entry), actions(entry)])),
  ]));
  if (focused) focusAgain(place, focused, row);
}

async function ask() {
  if (view.asking) return;
  view.asking = true;
  view.askedAt = Date.now();
  try {
    view.list = await getJson("/cache");
  } catch (error) {
    view.list = null;
    view.absent = /** @type {{status?: number}} */ (error).status === 404;
  }
  view.asking = false;
  for (const listener of listeners) listener(view.list);
  if (view.absent) byId("parked").hidden = true;
  else render();
}

/** @param {string} words @param {boolean} [whileBusy] true: it holds until no request runs any more */
function note(words, whileBusy = false) {
  view.busyNote = whileBusy;
  setText("parked-note", words);
}

/** @param {"POST"|"DELETE"} method @param {string} path @param {object} [body] */
async function tell(method, path, body) {
  note("");
  try {
    await send(method, path, body);
  } catch (error) {
    const busy = /** @type {{status?: number}} */ (error).status === 409;
    note(error instanceof Error ? error.message : String(error), busy);
  }
  for (const listener of changes) listener();
  await ask();
}

/** Does the engine have a list to give? @param {Metrics} metrics */
function loaded(metrics) {
  return !["unloaded", "loading", "failed"].includes(metrics.live.state);
}

/** @param {Metrics} metrics */
export function showParked(metrics) {
  view.metrics = metrics;
  if (view.busyNote && metrics.live.state === "idle") note("");
  const cache = metrics.conversation_cache;
  const on = cache?.enabled === true && !view.absent;
  byId("parked").hidden = !on;
  if (!on) return;
  if (!loaded(metrics)) {
    if (view.list) for (const listener of listeners) listener(null);
    view.list = null;
    view.mark = "";
    render();
    return;
  }
  const newest = cache?.events?.[0];
  const mark = JSON.stringify([metrics.engine.epoch, cache?.as_of, cache?.parked, newest?.time, newest?.kind, newest?.entry]);
  if (mark === view.mark && Date.now() - view.askedAt < EACH_MS) return;
  view.mark = mark;
  ask();
}
