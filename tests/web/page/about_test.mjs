// Protects About and the files themselves: facts and texts to copy are true for this server, assets come compressed and
// with a tag, --ui-dir serves the folder.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { gunzipSync } from "node:zlib";

import { SERVED, interfacesNeeded } from "../../../web/js/clients.js";
import { openPage, startBrowser, startServer, stopAll } from "./server.mjs";
import { eventually, shows } from "./waits.mjs";

const CURL_MS = 120_000; // one answer of the demo model on a loaded machine
const WEB = resolve(import.meta.dirname, "../../../web");
let server;
let browser;

before(async () => {
  server = await startServer();
  browser = await startBrowser();
});

after(async () => {
  await browser?.close();
  stopAll();
});

/** GET without Node's own decompression. */
function get(path, headers = {}) {
  return new Promise((done, fail) => {
    request(`${server.address}${path}`, { headers }, (response) => {
      const parts = [];
      response.on("data", (part) => parts.push(part));
      response.on("end", () => done({ status: response.statusCode, headers: response.headers, body: Buffer.concat(parts) }));
    }).on("error", fail).end();
  });
}

test("the facts are the server's and the curl text works as it is copied", async () => {
  const { page, faults, context } = await openPage(browser, server.address, { hash: "#about", permissions: ["clipboard-read", "clipboard-write"] });
  await eventually(() => page.locator("#facts").textContent(), (facts) => {
    for (const part of ["demo", server.address, "32,768 tokens", "cpu"]) assert.ok(facts.toLowerCase().includes(part), `${part} in ${facts}`);
  });
  await shows(page.locator("#model"), "demo"); // and then the texts name it
  const curl = page.locator("#clients .code").first();
  await shows(curl, new RegExp(`curl ${server.address}/v1/chat/completions`));
  // The word stands for a moment: what was written there since before the click.
  await curl.evaluate((place) => {
    globalThis.said = "";
    new MutationObserver(() => { globalThis.said += `${place.querySelector("button").textContent}; `; })
      .observe(place, { characterData: true, childList: true, subtree: true });
  });
  await curl.getByRole("button", { name: "Copy" }).click();
  await eventually(() => page.evaluate(() => globalThis.said), (said) => assert.match(said, /Copied/));
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  const answer = JSON.parse(execFileSync("sh", ["-c", `${copied} -s`], { timeout: CURL_MS }));
  assert.equal(answer.model, "demo");
  assert.ok(answer.choices[0].message.content.length > 0);
  assert.deepEqual(faults, []);
  await context.close();
});

test("the about page names exactly the interfaces that the server answers", async () => {
  for (const path of interfacesNeeded()) {
    const { status } = await fetch(`${server.address}${path}`, { method: "OPTIONS" });
    assert.equal(SERVED.includes(path), status < 400, `${path} answers ${status}; SERVED in web/js/clients.js says otherwise`);
  }
});

test("each file of the page comes compressed with its tag and is the file of the tree", async () => {
  const html = readFileSync(join(WEB, "index.html"), "utf8");
  const named = [...html.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map((match) => match[1]);
  assert.ok(named.includes("/js/app.js"));
  for (const path of ["/", ...named, "/js/chat.js", "/js/markdown.js"]) {
    const plain = await get(path);
    const file = readFileSync(join(WEB, path === "/" ? "index.html" : path));
    assert.equal(plain.status, 200, path);
    assert.ok(plain.body.equals(file), path);
    const zipped = await get(path, { "accept-encoding": "gzip" });
    assert.equal(zipped.headers["content-encoding"], "gzip");
    assert.ok(gunzipSync(zipped.body).equals(file), path);
    assert.ok(zipped.body.length <= file.length + 40);
    const again = await get(path, { "if-none-match": plain.headers.etag });
    assert.equal(again.status, 304, path);
    assert.equal(again.body.length, 0);
  }
});

test("every module that the page imports is embedded", async () => {
  const seen = new Set(["/js/app.js"]);
  for (const path of seen) {
    const { status, body } = await get(path);
    assert.equal(status, 200, path);
    for (const match of body.toString().matchAll(/^(?:import|export)[^"]*"\.\/([a-z_]+\.js)";/gm)) seen.add(`/js/${match[1]}`);
  }
  assert.ok(seen.size > 20, [...seen].join(" "));
});

test("a folder serves the page while somebody works on it", async () => {
  const folder = mkdtempSync(join(tmpdir(), "strata-ui-"));
  cpSync(WEB, folder, { recursive: true });
  const own = await startServer(["--ui-dir", folder]);
  assert.doesNotMatch(await (await fetch(`${own.address}/`)).text(), /my own page/);
  writeFileSync(join(folder, "index.html"), "<!doctype html><title>my own page</title>");
  assert.match(await (await fetch(`${own.address}/`)).text(), /my own page/);
  assert.equal((await fetch(`${own.address}/CMakeLists.txt`)).status, 404);
  await own.stop();
  rmSync(folder, { recursive: true });
});
