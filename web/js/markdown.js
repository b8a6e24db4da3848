// The block part of Markdown: text to paragraphs, headings, code, lists, quotes, tables and rules. Pure and total.
// Invariant: the sources of the blocks, joined, are the text; so a text that grows is parsed again only from its
// last block on.

/** @typedef {import("./types").Block} Block */

const DEPTH_MAX = 8; // of lists and quotes; deeper ones are plain text
const COLUMNS_MAX = 50; // of a table
const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^\s`]*)/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+|$)(.*)$/;
const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:( {1,4})(?! )|[ \t]|$)/;
const DELIMITERS = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

/** @param {string} line */
function isBlank(line) {
  return line.trim() === "";
}

/** The first line from `at` on that has text, or -1. @param {string[]} lines @param {number} at */
function nextFilled(lines, at) {
  while (at < lines.length && isBlank(lines[at])) ++at;
  return at < lines.length ? at : -1;
}

/** @param {string[]} lines @param {number} at */
function isTable(lines, at) {
  return lines[at].includes("|") && at + 1 < lines.length && lines[at + 1].includes("-") && DELIMITERS.test(lines[at + 1]);
}

/** Does something else than a paragraph begin here? @param {string[]} lines @param {number} at */
function beginsBlock(lines, at) {
  const line = lines[at];
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line) ||
    isTable(lines, at);
}

/** "a | `b|c` | d" as cells. @param {string} line */
export function cells(line) {
  const out = [""];
  const inner = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  for (let i = 0; i < inner.length; ++i) {
    if (inner[i] === "\\" && inner[i + 1] === "|") {
      out[out.length - 1] += "|";
      ++i;
    } else if (inner[i] === "|" && out.length < COLUMNS_MAX) {
      out.push("");
    } else {
      out[out.length - 1] += inner[i];
    }
  }
  return out.map((cell) => cell.trim());
}

/** @param {string[]} lines @param {number} at @returns {{block: Omit<Block, "source">, end: number}} */
function takeFence(lines, at) {
  const [, marker, language] = /** @type {RegExpExecArray} */ (FENCE.exec(lines[at]));
  let end = at + 1;
  const closes = (/** @type {string} */ line) => {
    const text = line.trim();
    return text.length >= marker.length && text === marker[0].repeat(text.length);
  };
  while (end < lines.length && !closes(lines[end])) ++end;
  const text = lines.slice(at + 1, end).join("\n");
  return { block: { kind: "code", language, text }, end: Math.min(end + 1, lines.length) };
}

/** @param {string[]} lines @param {number} at @param {number} depth */
function takeQuote(lines, at, depth) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) ++end;
  const inner = lines.slice(at, end).map((line) => line.replace(QUOTE, "")).join("\n");
  return { block: nested("quote", inner, depth), end };
}

/** @param {"quote"} kind @param {string} inner @param {number} depth @returns {Omit<Block, "source">} */
function nested(kind, inner, depth) {
  if (depth >= DEPTH_MAX) return { kind: "plain", text: inner };
  return { kind, children: parseBlocks(inner, depth + 1) };
}

/** Does a line belong to the item that is indented by `indent`? @param {string} line @param {number} indent */
function continues(line, indent) {
  const space = line.slice(0, line.length - line.trimStart().length);
  return space.replaceAll("\t", "    ").length >= indent;
}

/** @param {string[]} lines @param {number} at @param {number} depth */
function takeList(lines, at, depth) {
  const first = /** @type {RegExpExecArray} */ (ITEM.exec(lines[at]));
  const ordered = /\d/.test(first[2]);
  const mark = first[2].slice(-1);
  /** @type {Block[][]} */
  const items = [];
  let end = at;
  while (end < lines.length) {
    const item = ITEM.exec(lines[end]);
    if (!item || item[2].slice(-1) !== mark || RULE.test(lines[end])) break;
    const indent = item[1].length + item[2].length + (item[3]?.length ?? 1);
    const inner = [lines[end].slice(item[0].length)];
    let next = end + 1;
    while (next < lines.length) {
      const line = lines[next];
      if (isBlank(line)) {
        const after = nextFilled(lines, next);
        if (after < 0 || !continues(lines[after], indent)) break;
      } else if (!continues(line, indent) && (isBlank(lines[next - 1]) || beginsBlock(lines, next))) {
        break;
      }
      inner.push(line.slice(Math.min(indent, line.length - line.trimStart().length)));
      ++next;
    }
    items.push(depth >= DEPTH_MAX ? [plain(inner.join("\n"))] : parseBlocks(inner.join("\n"), depth + 1));
    end = next;
    const after = nextFilled(lines, end);
    if (after > end && ITEM.exec(lines[after])?.[2].slice(-1) === mark) end = after;
  }
  const start = ordered ? Number.parseInt(first[2], 10) : undefined;
  return { block: /** @type {Omit<Block, "source">} */ ({ kind: "list", ordered, start, items }), end };
}

/** @param {string} text @returns {Block} */
function plain(text) {
  return { kind: "plain", source: text, text };
}

/** @param {string[]} lines @param {number} at */
function takeTable(lines, at) {
  const rows = [cells(lines[at])];
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|") && !isBlank(lines[end])) rows.push(cells(lines[end++]));
  return { block: /** @type {Omit<Block, "source">} */ ({ kind: "table", rows }), end };
}

/** @param {string[]} lines @param {number} at @param {number} depth @returns {{block: Omit<Block, "source">, end: number}} */
function takeBlock(lines, at, depth) {
  const line = lines[at];
  if (FENCE.test(line)) return takeFence(lines, at);
  const heading = HEADING.exec(line);
  if (heading) {
    const text = heading[2].replace(/[ \t]+#+[ \t]*$/, "").trim();
    return { block: { kind: "heading", level: heading[1].length, text }, end: at + 1 };
  }
  if (RULE.test(line)) return { block: { kind: "rule" }, end: at + 1 };
  if (QUOTE.test(line)) return takeQuote(lines, at, depth);
  if (ITEM.test(line)) return takeList(lines, at, depth);
  if (isTable(lines, at)) return takeTable(lines, at);
  let end = at + 1;
  while (end < lines.length && !isBlank(lines[end]) && !beginsBlock(lines, end)) ++end;
  return { block: { kind: "paragraph", text: lines.slice(at, end).map((each) => each.trim()).join("\n") }, end };
}

/** @param {string} text @param {number} [depth] @returns {Block[]} */
export function parseBlocks(text, depth = 0) {
  const lines = text.split("\n");
  /** @type {Block[]} */
  const blocks = [];
  let from = 0; // first line that is in no block yet
  for (let at = 0; at < lines.length; ) {
    if (isBlank(lines[at])) {
      ++at;
      continue;
    }
    const { block, end } = takeBlock(lines, at, depth);
    const source = lines.slice(from, end).join("\n") + (end < lines.length ? "\n" : "");
    blocks.push({ ...block, source });
    from = end;
    at = end;
  }
  if (from < lines.length && blocks.length > 0) blocks[blocks.length - 1].source += lines.slice(from).join("\n");
  return blocks;
}
