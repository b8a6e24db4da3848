// Protects the Markdown of answers: the tree is what people expect, nothing outside the known kinds comes out, whatever
// the text is, and no text takes more than its length in time.
import assert from "node:assert/strict";
import { test } from "node:test";

import { cells, parseBlocks } from "../../../web/js/markdown.js";
import { parseInline, safeHref } from "../../../web/js/markdown_inline.js";

/** The tree without sources, for comparing. */
function bare(blocks) {
  return blocks.map(({ source, children, items, ...rest }) => ({
    ...rest,
    ...(children ? { children: bare(children) } : {}),
    ...(items ? { items: items.map(bare) } : {}),
  }));
}

const text = (value) => ({ kind: "text", text: value });

test("the kinds of blocks are told apart", () => {
  const source = "# Head #\n\nOne\ntwo\n\n- a\n- b\n\n1. x\n2) other\n\n> said\n\n```js\nlet a;\n```\n***\n| h | i |\n|---|:-:|\n| 1 | 2 |\n";
  assert.deepEqual(bare(parseBlocks(source)), [
    { kind: "heading", level: 1, text: "Head" },
    { kind: "paragraph", text: "One\ntwo" },
    { kind: "list", ordered: false, start: undefined, items: [[{ kind: "paragraph", text: "a" }], [{ kind: "paragraph", text: "b" }]] },
    { kind: "list", ordered: true, start: 1, items: [[{ kind: "paragraph", text: "x" }]] },
    { kind: "list", ordered: true, start: 2, items: [[{ kind: "paragraph", text: "other" }]] },
    { kind: "quote", children: [{ kind: "paragraph", text: "said" }] },
    { kind: "code", language: "js", text: "let a;" },
    { kind: "rule" },
    { kind: "table", rows: [["h", "i"], ["1", "2"]] },
  ]);
});

test("lists nest and hold code", () => {
  const blocks = bare(parseBlocks("1. one\n   - inner\n   - two\n\n   ```\n   code\n   ```\n2. last"));
  assert.equal(blocks.length, 1);
  assert.deepEqual(blocks[0].items.map((item) => item.map((block) => block.kind)), [["paragraph", "list", "code"], ["paragraph"]]);
  assert.equal(blocks[0].items[0][2].text, "code");
});

test("code that is not closed yet is code to the end and holds Markdown as text", () => {
  assert.deepEqual(bare(parseBlocks("~~~\n# no head\n```\n")), [{ kind: "code", language: "", text: "# no head\n```\n" }]);
});

test("the sources of the blocks are the text so that a growing text is parsed from its last block on", () => {
  const source = "para\n\n\n- a\n\n  b\n- c\n\n```\nx\n\ny\n```\n\n| a |\n|---|\n| b |\n> q\n\nend  \n\n";
  for (let cut = 0; cut <= source.length; ++cut) {
    const part = source.slice(0, cut);
    const blocks = parseBlocks(part);
    const joined = blocks.map((block) => block.source).join("");
    assert.equal(joined, part.trim() ? part : "", JSON.stringify(part));
    // All blocks but the last are final: what comes later does not change them.
    let settled = 0;
    for (const block of blocks.slice(0, -1)) settled += block.source.length;
    const whole = parseBlocks(source);
    const again = [...blocks.slice(0, -1), ...parseBlocks(source.slice(settled))];
    assert.deepEqual(bare(again), bare(whole), `cut at ${cut}`);
  }
});

test("cells keep their escaped bars and tables their width", () => {
  assert.deepEqual(cells("| a | b\\|c |"), ["a", "b|c"]);
  assert.deepEqual(cells("a|b|"), ["a", "b"]);
  assert.ok(cells("|".repeat(5000)).length <= 50);
});

test("emphasis, code and links", () => {
  assert.deepEqual(parseInline("a **b *c* d** `x*y*` ~~e~~"), [
    text("a "),
    { kind: "strong", children: [text("b "), { kind: "em", children: [text("c")] }, text(" d")] },
    text(" "),
    { kind: "code", text: "x*y*" },
    text(" "),
    { kind: "strike", children: [text("e")] },
  ]);
  assert.deepEqual(parseInline("***both***"), [{ kind: "strong", children: [{ kind: "em", children: [text("both")] }] }]);
  assert.deepEqual(parseInline("``a`b``"), [{ kind: "code", text: "a`b" }]);
  assert.deepEqual(parseInline("[t](https://x.example/a_(b) \"title\")"), [
    { kind: "link", href: "https://x.example/a_(b)", children: [text("t")] },
  ]);
  assert.deepEqual(parseInline("see https://x.example/a_b."), [
    text("see "), { kind: "link", href: "https://x.example/a_b", children: [text("https://x.example/a_b")] }, text("."),
  ]);
  assert.deepEqual(parseInline("a\nb"), [text("a"), { kind: "break" }, text("b")]);
});

test("what is no markup stays the text it was", () => {
  for (const plain of ["2 * 3 * 4", "snake_case_name", "a ** b", "`open", "[x]", "[x](", "![", "**half", "~one~", "****", "<b>x</b>", "&amp;"]) {
    assert.deepEqual(parseInline(plain), [text(plain)], plain);
  }
  assert.deepEqual(parseInline("\\*no\\*"), [text("*no*")]);
});

test("only http, https and mailto become links", () => {
  const refused = [
    "javascript:alert(1)", "JaVaScRiPt:alert(1)", " javascript:alert(1)", "java\tscript:alert(1)", "data:text/html,x", "vbscript:x",
    "file:///etc/passwd", "//evil.example", "/local", "#hash", "https:", "http://", "https://a b", "blob:http://x", "about:blank",
    "https://x\u0000y", "javascript&colon;alert(1)", "\u0001javascript:alert(1)",
  ];
  for (const href of refused) {
    assert.equal(safeHref(href), null, href);
    const links = parseInline(`[x](${href})`).filter((inline) => inline.kind === "link").map((inline) => inline.href);
    // The beginning of a refused text may be an address of its own.
    const inside = { "https://a b": ["https://a"], "blob:http://x": ["http://x"] };
    assert.deepEqual(links, inside[href] ?? [], href);
  }
  for (const href of ["http://a.example", "HTTPS://A.example/b?c#d", "mailto:a@b.example"]) assert.equal(safeHref(href), href);
});

test("an image is a link to it", () => {
  assert.deepEqual(parseInline("![alt](https://x.example/i.png)"), [
    { kind: "link", href: "https://x.example/i.png", children: [text("image: alt")] },
  ]);
});

const KINDS = new Set(["text", "code", "strong", "em", "strike", "link", "break"]);
const BLOCKS = new Set(["paragraph", "heading", "code", "list", "quote", "table", "rule", "plain"]);

function checkInline(inlines, depth = 0) {
  assert.ok(depth < 20);
  for (const inline of inlines) {
    assert.ok(KINDS.has(inline.kind), inline.kind);
    if (inline.href !== undefined) assert.match(inline.href, /^(https?:\/\/|mailto:)/i);
    checkInline(inline.children ?? [], depth + 1);
  }
}

function checkBlocks(blocks, depth = 0) {
  assert.ok(depth < 12);
  for (const block of blocks) {
    assert.ok(BLOCKS.has(block.kind), block.kind);
    checkInline(parseInline(block.text ?? ""));
    checkBlocks(block.children ?? [], depth + 1);
    for (const item of block.items ?? []) checkBlocks(item, depth + 1);
    for (const cell of (block.rows ?? []).flat()) checkInline(parseInline(cell));
  }
}

test("ten thousand random texts give trees of known kinds", () => {
  const pieces = ["*", "**", "_", "`", "```", "~~", "[", "](", ")", "!", "\n", "\n\n", "- ", "1. ", "> ", "|", "|-|", "#", "# ", " ", "    ",
    "\t", "\\", "a", "https://a.example", "javascript:", "<script>", "\u202e", "\u0000", "é", "😀", "---", "***", "\r"];
  let seed = 7;
  const next = () => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
  for (let i = 0; i < 10_000; ++i) {
    let source = "";
    const count = 1 + Math.floor(next() * 30);
    for (let k = 0; k < count; ++k) source += pieces[Math.floor(next() * pieces.length)];
    checkBlocks(parseBlocks(source));
  }
});

test("no text takes more time than its length", () => {
  const n = 8_000;
  const bad = {
    stars: "*a ".repeat(n), closers: "a* ".repeat(n), mixed: "*_".repeat(n), ticks: "`a``b".repeat(n), brackets: "[".repeat(n),
    links: "[](".repeat(n), images: "![](".repeat(n), quotes: ">".repeat(n), items: "- ".repeat(n), bars: "|".repeat(n),
    dashes: "- ".repeat(n) + "x", rules: "* * ".repeat(n) + "x", spaces: " ".repeat(n) + "x", hashes: "#".repeat(n),
    deepList: Array.from({ length: 500 }, (_, i) => `${" ".repeat(i * 2)}- x`).join("\n"),
    loose: "- a\n\n".repeat(n), delimiters: `|${"-|".repeat(n)}\n|${"-|".repeat(n)}`, addresses: "http://".repeat(n),
    escapes: "\\".repeat(n), fences: "```\n".repeat(n), paragraphs: "a\n\n".repeat(n),
    longTicks: Array.from({ length: 170 }, (_, i) => "`".repeat(i + 1)).join(" "),
  };
  for (const [name, source] of Object.entries(bad)) {
    const began = process.cpuUsage();
    checkBlocks(parseBlocks(source));
    const used = process.cpuUsage(began);
    const ms = (used.user + used.system) / 1000;
    assert.ok(ms < 3000, `${name}: ${Math.round(ms)} ms of processor time`);
  }
});
