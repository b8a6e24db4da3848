// The inline part of Markdown: text to a tree of emphasis, code and links. Pure, linear in the text, and total:
// what is no markup stays the text it was. HTML is text. Links are http, https and mailto only; an image is the
// link to it.

/** @typedef {import("./types").Inline} Inline */

const DEPTH_MAX = 12; // of emphasis; deeper markers stay text
const LABEL_CHARS_MAX = 400; // of a link; keeps the search for "]" short
const HREF_CHARS_MAX = 2000;
const RUN_MAX = 3; // ***both***; longer runs are text

/** @param {string} href @returns {string|null} the address if a click may follow it */
export function safeHref(href) {
  const text = href.trim();
  // eslint-disable-next-line no-control-regex
  if (/[\u0000-\u0020\u007f"<>\\^`{|}]/.test(text)) return null;
  return /^(https?:\/\/[^/?#]|mailto:[^/?#])/i.test(text) ? text : null;
}

/** @param {string} c */
function isWordChar(c) {
  return /[\p{L}\p{N}_]/u.test(c);
}

/**
 * @param {string} text
 * @param {number} at of "["
 * @returns {{label: string, href: string, end: number}|null}
 */
function linkAt(text, at) {
  let depth = 0;
  let close = -1;
  const limit = Math.min(text.length, at + LABEL_CHARS_MAX);
  for (let i = at; i < limit; ++i) {
    if (text[i] === "\\") ++i;
    else if (text[i] === "[") ++depth;
    else if (text[i] === "]" && --depth === 0) {
      close = i;
      break;
    }
  }
  if (close < 0 || text[close + 1] !== "(") return null;
  depth = 0;
  for (let i = close + 1; i < Math.min(text.length, close + HREF_CHARS_MAX); ++i) {
    if (text[i] === "(") ++depth;
    if (text[i] === ")" && --depth === 0) {
      const inside = text.slice(close + 2, i).replace(/\s+("[^"]*"|'[^']*')\s*$/, "");
      const href = safeHref(inside.replace(/^<(.*)>$/, "$1"));
      return href ? { label: text.slice(at + 1, close), href, end: i + 1 } : null;
    }
  }
  return null;
}

/** @param {string} text @param {number} at of "h" @returns {string|null} a bare address */
function addressAt(text, at) {
  if (at > 0 && isWordChar(text[at - 1])) return null;
  const match = /^https?:\/\/[^\s<>"`]+/i.exec(text.slice(at, at + HREF_CHARS_MAX));
  if (!match) return null;
  const href = match[0].replace(/[.,;:!?'*_~]+$/, "");
  return safeHref(href.endsWith(")") && !href.includes("(") ? href.slice(0, -1) : href);
}

/** Builds the tree: a stack of open containers, the lowest is the result. */
class Builder {
  constructor() {
    /** @type {{marker: string, children: Inline[]}[]} */
    this.stack = [{ marker: "", children: [] }];
  }

  /** @param {Inline} node */
  add(node) {
    const children = this.stack[this.stack.length - 1].children;
    const last = children[children.length - 1];
    if (node.kind === "text" && last?.kind === "text") last.text = (last.text ?? "") + node.text;
    else children.push(node);
  }

  /** @param {string} text */
  text(text) {
    if (text) this.add({ kind: "text", text });
  }

  /** The open container becomes the text it was. */
  dissolve() {
    const open = this.stack.pop();
    if (!open) return;
    this.text(open.marker);
    for (const child of open.children) this.add(child);
  }

  /** @param {string} marker @param {boolean} canOpen @param {boolean} canClose */
  marker(marker, canOpen, canClose) {
    if (canClose && this.stack.some((open) => open.marker === marker)) {
      while (this.stack[this.stack.length - 1].marker !== marker) this.dissolve();
      const closed = this.stack.pop();
      const kind = marker === "~~" ? "strike" : marker.length === 2 ? "strong" : "em";
      if (closed) this.add({ kind, children: closed.children });
    } else if (canOpen && this.stack.length <= DEPTH_MAX) {
      this.stack.push({ marker, children: [] });
    } else {
      this.text(marker);
    }
  }

  finish() {
    while (this.stack.length > 1) this.dissolve();
    return this.stack[0].children;
  }
}

/** @param {Builder} builder @param {string} text @param {number} at @returns {number} behind the run */
function takeRun(builder, text, at) {
  const c = text[at];
  let end = at;
  while (text[end] === c) ++end;
  const length = end - at;
  const before = text[at - 1] ?? " ";
  const after = text[end] ?? " ";
  let canOpen = !/\s/.test(after);
  let canClose = !/\s/.test(before);
  if (c === "_") {
    canOpen &&= !isWordChar(before);
    canClose &&= !isWordChar(after);
  }
  if (length > RUN_MAX || (c === "~" && length !== 2)) {
    builder.text(text.slice(at, end));
  } else if (length === 3) {
    const closesFirst = canClose && builder.stack[builder.stack.length - 1].marker === c;
    for (const marker of closesFirst ? [c, c + c] : [c + c, c]) builder.marker(marker, canOpen, canClose);
  } else {
    builder.marker(text.slice(at, end), canOpen, canClose);
  }
  return end;
}

/**
 * @param {Builder} builder @param {string} text @param {number} at of a backtick
 * @param {Set<number>} unclosed lengths of runs that have no partner behind
 * @returns {number} behind what was taken
 */
function takeCode(builder, text, at, unclosed) {
  let end = at;
  while (text[end] === "`") ++end;
  const length = end - at;
  for (let i = end; !unclosed.has(length); ) {
    const open = text.indexOf("`", i);
    if (open < 0) {
      unclosed.add(length);
      break;
    }
    let close = open;
    while (text[close] === "`") ++close;
    if (close - open === length) {
      const inside = text.slice(end, open).replaceAll("\n", " ");
      builder.add({ kind: "code", text: /^ .* $/.test(inside) && inside.trim() ? inside.slice(1, -1) : inside });
      return close;
    }
    i = close;
  }
  builder.text(text.slice(at, end));
  return end;
}

/** @param {Builder} builder @param {string} text @param {number} at of "[" or "!" */
function takeLink(builder, text, at) {
  const image = text[at] === "!";
  const link = linkAt(text, image ? at + 1 : at);
  if (!link) {
    builder.text(text[at]);
    return at + 1;
  }
  const label = link.label.replace(/\\([!-/:-@[-`{-~])/g, "$1").replaceAll("\n", " ");
  const shown = image ? `image: ${label || link.href}` : label || link.href;
  builder.add({ kind: "link", href: link.href, children: [{ kind: "text", text: shown }] });
  return link.end;
}

/** @param {string} text @returns {Inline[]} */
export function parseInline(text) {
  const builder = new Builder();
  const unclosed = /** @type {Set<number>} */ (new Set());
  const special = /[\\`*_~[!\nhH]/g;
  let at = 0;
  while (at < text.length) {
    special.lastIndex = at;
    const found = special.exec(text);
    if (!found) break;
    builder.text(text.slice(at, found.index));
    at = found.index;
    const c = text[at];
    if (c === "\\" && /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "")) {
      builder.text(text[at + 1]);
      at += 2;
    } else if (c === "`") {
      at = takeCode(builder, text, at, unclosed);
    } else if (c === "*" || c === "_" || c === "~") {
      at = takeRun(builder, text, at);
    } else if (c === "[" || (c === "!" && text[at + 1] === "[")) {
      at = takeLink(builder, text, at);
    } else if (c === "\n") {
      builder.add({ kind: "break" });
      at += 1;
    } else {
      const href = c === "h" || c === "H" ? addressAt(text, at) : null;
      if (href) builder.add({ kind: "link", href, children: [{ kind: "text", text: href }] });
      else builder.text(c);
      at += href ? href.length : 1;
    }
  }
  builder.text(text.slice(at));
  return builder.finish();
}
