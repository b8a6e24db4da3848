// Builds DOM nodes. Text becomes text nodes only: what a model wrote is never parsed as HTML.

/** @typedef {import("./types").Shape} Shape */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {string} tag
 * @param {Record<string, string>} [attributes]
 * @param {...(Node|string)} children
 * @returns {HTMLElement}
 */
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/**
 * @param {string} text
 * @param {() => void} act
 * @param {Record<string, string>} [attributes]
 */
export function button(text, act, attributes = {}) {
  const node = element("button", { type: "button", ...attributes }, text);
  node.addEventListener("click", act);
  return node;
}

/** @param {string} id @returns {any} the element; its kind is the page's */
export function byId(id) {
  const node = document.getElementById(id);
  if (!node) throw new Error(`the page has no #${id}`);
  return node;
}

/** Writes only what changed, so that selections and screen readers are left alone. @param {string} id @param {string} text */
export function setText(id, text) {
  const node = byId(id);
  if (node.textContent !== text) node.textContent = text;
}

/** A drawing. @param {Shape} shape @returns {SVGElement} */
export function svg(shape) {
  const node = document.createElementNS(SVG, shape.tag);
  for (const [name, value] of Object.entries(shape.attributes)) node.setAttribute(name, value);
  for (const child of shape.children) node.append(typeof child === "string" ? child : svg(child));
  return node;
}

/** Puts a drawing into a place unless it is the one that is there. @param {string} id @param {Shape} shape */
export function draw(id, shape) {
  const place = byId(id);
  const text = JSON.stringify(shape);
  if (place.drawn === text) return;
  place.drawn = text;
  place.replaceChildren(svg(shape));
}

/**
 * Gives a place exactly these nodes in this order. Those that are there are neither taken out nor moved without need: a
 * click that has begun on one, and its focus, are not lost.
 * @param {Element} place @param {Node[]} nodes
 */
export function showNodes(place, nodes) {
  const wanted = new Set(nodes);
  for (const node of [...place.childNodes]) if (!wanted.has(node)) node.remove();
  let next = place.firstChild;
  for (const node of nodes) {
    if (node === next) next = next.nextSibling;
    else place.insertBefore(node, next);
  }
}

/** Name and value pairs as a list of terms. @param {string} id @param {[string, string][]} pairs */
export function showPairs(id, pairs) {
  const place = byId(id);
  const text = JSON.stringify(pairs);
  if (place.drawn === text) return;
  place.drawn = text;
  place.replaceChildren(
    ...pairs.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
  );
}
