// Small parts of the monitor's tiles: a chart that can be shown as a table, a tooltip that the keyboard reaches, a table
// that becomes cards on a narrow screen.
import { byId, element } from "./dom.js";

/** @param {string[]} heads @param {(string|Node)[][]} rows */
export function tableNode(heads, rows) {
  const head = element("tr", {}, ...heads.map((name) => element("th", { scope: "col" }, name)));
  const body = rows.map((row) => element("tr", {}, ...row.map((cell, i) => element("td", { "data-name": heads[i] ?? "" }, cell))));
  return element("table", { class: "cards" }, element("thead", {}, head), element("tbody", {}, ...body));
}

/**
 * Fills the table of a place unless it is the one that is there.
 * @param {string} id @param {string[]} heads @param {string[][]} rows @param {(row: number) => (() => void)|null} [act] of a row's first cell
 */
export function showTable(id, heads, rows, act) {
  const place = byId(id);
  const text = JSON.stringify(rows);
  if (place.hidden || place.drawn === text) return;
  place.drawn = text;
  const cells = !act ? rows : rows.map((row, i) => {
    const open = act(i);
    if (!open) return row;
    const button = element("button", { type: "button", class: "small" }, row[0]);
    button.addEventListener("click", open);
    return [button, ...row.slice(1)];
  });
  place.replaceChildren(tableNode(heads, cells));
}

/**
 * Makes the button "Show as table" of a tile: it shows #NAME-table in the place of #NAME-chart.
 * @param {string} name @param {() => void} fill called when the table comes into sight
 */
export function startToggle(name, fill) {
  const button = byId(`${name}-toggle`);
  button.addEventListener("click", () => {
    const table = byId(`${name}-table`);
    table.hidden = !table.hidden;
    byId(`${name}-chart`).hidden = !table.hidden;
    button.textContent = table.hidden ? "Show as table" : "Show as chart";
    fill();
  });
}

/**
 * A question mark whose words come with the pointer or the focus; Esc sends them away.
 * @param {string} id of the words @param {string} about what they are about
 */
export function hint(id, about) {
  const words = element("span", { id, role: "tooltip", class: "tip-words" });
  const button = element("button", { type: "button", class: "tip-button", "aria-label": `What is ${about}?`, "aria-describedby": id }, "?");
  const node = element("span", { class: "tip" }, button, words);
  for (const event of ["focusout", "mouseleave", "click"]) node.addEventListener(event, () => node.classList.remove("away"));
  return node;
}

/** Esc sends the tooltip away that is seen, wherever the focus is. */
export function startHints() {
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const node of document.querySelectorAll(".tip:hover, .tip:focus-within")) node.classList.add("away");
  });
}
