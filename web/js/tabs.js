// The three views: a tab list with arrow keys; the address says which one is shown (#monitor).
import { byId } from "./dom.js";

const NAMES = ["chat", "monitor", "about"];
const shown = { name: "", places: /** @type {Record<string, number>} */ ({}) }; // how far each view is scrolled

/** @param {string} name */
function select(name) {
  if (name === shown.name) return;
  shown.places[shown.name] = window.scrollY;
  shown.name = name;
  for (const each of NAMES) {
    const tab = byId(`tab-${each}`);
    tab.setAttribute("aria-selected", String(each === name));
    tab.tabIndex = each === name ? 0 : -1;
    byId(each).hidden = each !== name;
  }
  window.scrollTo(0, shown.places[name] ?? 0);
}

function named() {
  const name = location.hash.slice(1);
  return NAMES.includes(name) ? name : NAMES[0];
}

/** @param {string} name */
function go(name) {
  history.replaceState(null, "", name === NAMES[0] ? location.pathname : `#${name}`);
  select(name);
}

export function startTabs() {
  byId("tabs").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const at = NAMES.indexOf(named());
    const places = {
      ArrowRight: (at + 1) % NAMES.length, ArrowLeft: (at + NAMES.length - 1) % NAMES.length, Home: 0, End: NAMES.length - 1,
    };
    const next = places[/** @type {keyof typeof places} */ (event.key)];
    if (next === undefined) return;
    event.preventDefault();
    go(NAMES[next]);
    byId(`tab-${NAMES[next]}`).focus();
  });
  for (const name of NAMES) byId(`tab-${name}`).addEventListener("click", () => go(name));
  window.addEventListener("hashchange", () => select(named()));
  select(named());
}

export function startTheme() {
  const choice = byId("theme");
  choice.value = document.documentElement.dataset.theme ?? "auto";
  choice.addEventListener("change", () => {
    if (choice.value === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice.value;
    try {
      localStorage.setItem("strata-theme", choice.value);
    } catch {
      // Not kept: the browser forbids storage.
    }
  });
}
