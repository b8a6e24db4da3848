// Shows Markdown that grows. Everything a model wrote arrives here as text nodes and a fixed set of elements.
// Only the last block is built again when text comes; what stands above it stays as it is, so a selection in it does, too.
import { copyButton } from "./clipboard.js";
import { element } from "./dom.js";
import { counted } from "./format.js";
import { parseBlocks } from "./markdown.js";
import { parseInline } from "./markdown_inline.js";

/** @typedef {import("./types").Block} Block */
/** @typedef {import("./types").Inline} Inline */

const INLINE_CHARS_MAX = 20_000; // a longer paragraph is shown as plain text: it is no prose
const SHOWN_CHARS_MAX = 200_000; // of one answer; the rest is there behind a button
const TAGS = { strong: "strong", em: "em", strike: "s" };

/** @param {Inline} inline @returns {Node} */
function inlineNode(inline) {
  switch (inline.kind) {
    case "text":
      return document.createTextNode(inline.text ?? "");
    case "code":
      return element("code", {}, inline.text ?? "");
    case "break":
      return element("br");
    case "link":
      return element("a", {
        href: inline.href ?? "", title: inline.href ?? "", target: "_blank", rel: "noopener noreferrer nofollow",
      }, ...inlineNodes(inline.children));
    default:
      return element(TAGS[inline.kind], {}, ...inlineNodes(inline.children));
  }
}

/** @param {Inline[]|undefined} inlines */
function inlineNodes(inlines) {
  return (inlines ?? []).map(inlineNode);
}

/** @param {string} text */
function prose(text) {
  return text.length > INLINE_CHARS_MAX ? [text] : inlineNodes(parseInline(text));
}

/** @param {Block} block */
function codeNode(block) {
  const text = block.text ?? "";
  const head = element("div", { class: "code-head" }, element("span", {}, block.language || "text"), copyButton(() => text, "code"));
  const body = element("pre", { tabindex: "0", role: "region", "aria-label": `Code, ${block.language || "text"}` },
    element("code", {}, text));
  return element("div", { class: "code" }, head, body);
}

/** @param {Block} block */
function listNode(block) {
  /** @type {Record<string, string>} */
  const attributes = {};
  if (block.ordered && block.start !== 1) attributes.start = String(block.start);
  const items = (block.items ?? []).map((blocks) => {
    const [first] = blocks;
    // A lone paragraph needs no spacing of its own.
    if (first?.kind === "paragraph") {
      return element("li", {}, ...prose(first.text ?? ""), ...blocks.slice(1).map(blockNode));
    }
    return element("li", {}, ...blocks.map(blockNode));
  });
  return element(block.ordered ? "ol" : "ul", attributes, ...items);
}

/** @param {Block} block */
function tableNode(block) {
  const [head, ...rows] = block.rows ?? [];
  const width = head.length;
  const table = element("table", {},
    element("thead", {}, element("tr", {}, ...head.map((cell) => element("th", { scope: "col" }, ...prose(cell))))),
    element("tbody", {}, ...rows.map((row) =>
      element("tr", {}, ...row.slice(0, width).map((cell) => element("td", {}, ...prose(cell)))))));
  return element("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": "Table" }, table);
}

/** @param {Block} block @returns {HTMLElement} */
export function blockNode(block) {
  switch (block.kind) {
    case "heading": // below the page's own h1 and h2
      return element(`h${Math.min(6, (block.level ?? 1) + 2)}`, { dir: "auto" }, ...prose(block.text ?? ""));
    case "code":
      return codeNode(block);
    case "list":
      return listNode(block);
    case "quote":
      return element("blockquote", {}, ...(block.children ?? []).map(blockNode));
    case "table":
      return tableNode(block);
    case "rule":
      return element("hr");
    case "plain":
      return element("p", { class: "plain", dir: "auto" }, block.text ?? "");
    default:
      return element("p", { dir: "auto" }, ...prose(block.text ?? ""));
  }
}

/** A place that shows a growing text. */
export class MarkdownView {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.place = place;
    this.text = "";
    this.settled = 0; // characters of blocks that cannot change any more
    /** @type {HTMLElement[]} */
    this.open = []; // nodes of the last block
    this.limit = SHOWN_CHARS_MAX;
    /** @type {HTMLElement|null} */
    this.rest = null;
  }

  /** @param {string} text the whole text; begins with what was shown before */
  update(text) {
    this.text = text;
    const shown = text.slice(0, this.limit);
    const blocks = parseBlocks(shown.slice(this.settled));
    for (const node of this.open) node.remove();
    this.open = [];
    blocks.forEach((block, i) => {
      const node = blockNode(block);
      this.place.insertBefore(node, this.rest);
      if (i + 1 < blocks.length) this.settled += block.source.length;
      else this.open.push(node);
    });
    this.showRest(text.length - shown.length);
  }

  /** @param {number} hidden characters */
  showRest(hidden) {
    if (hidden <= 0) {
      this.rest?.remove();
      this.rest = null;
      return;
    }
    if (!this.rest) {
      const more = element("button", { type: "button", class: "small" }, "Show all");
      more.addEventListener("click", () => {
        this.limit = Infinity;
        this.update(this.text);
      });
      this.rest = element("p", { class: "quiet rest" }, element("span"), more);
      this.place.append(this.rest);
    }
    /** @type {HTMLElement} */ (this.rest.firstChild).textContent = `… and ${counted(hidden, "more character")} `;
  }
}
