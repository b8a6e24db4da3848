// Starts strata-serve on a free port, with the real engine or the fake one, and a browser page on it; ends both.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chromium } from "playwright-core";

import { fakeEngine } from "./fake.mjs";
import { SETTLE_MS, shows } from "./waits.mjs";

const BIN = process.env.STRATA_BIN_DIR;
const START_MS = 120_000; // of a server on a loaded machine
const STOP_MS = 60_000;
const SLOWDOWN = Number(process.env.STRATA_PAGE_SLOWDOWN ?? 1); // how many times slower each page runs
const LATE_MS = SLOWDOWN > 1 ? 300 : 0; // and how much later its storage answers
const running = new Set();

/**
 * @param {string[]} options of strata-serve
 * @param {{awaitReady?: boolean}} how
 */
export async function startServer(options = [], { awaitReady = true } = {}) {
  const args = ["--model", "demo", ...(options.includes("--port") ? [] : ["--port", "0"]), ...options];
  const child = spawn(`${BIN}/strata-serve`, args, { stdio: ["ignore", "pipe", "pipe"] });
  running.add(child);
  child.on("exit", () => running.delete(child));
  let log = "";
  const address = await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no address after ${START_MS} ms:\n${log}`)), START_MS);
    const take = (bytes) => {
      log += bytes;
      const match = log.match(/http:\/\/127\.0\.0\.1:\d+(?=\D)/);
      if (match) {
        clearTimeout(timer);
        resolve(match[0]);
      }
    };
    child.stdout.on("data", take);
    child.stderr.on("data", take);
    child.on("error", reject);
    child.on("exit", (code) => reject(new Error(`strata-serve ended with ${code}:\n${log}`)));
  });
  if (awaitReady) await ready(address);
  return { address, child, log: () => log, stop: () => stop(child) };
}

/**
 * A server whose engine plays a script (see tests/support/fake_engine).
 * @param {{script?: string[], args?: string[], options?: string[], awaitReady?: boolean}} how
 */
export async function startWithFake({ script = [], args = [], options = [], awaitReady = true }) {
  const engine = fakeEngine(script, args);
  const server = await startServer(["--engine", engine.path, ...options], { awaitReady });
  return { ...server, stop: async () => { await server.stop(); engine.remove(); } };
}

async function ready(address) {
  const end = Date.now() + START_MS;
  for (;;) {
    const response = await fetch(`${address}/health`).catch(() => null);
    if (response?.ok) return;
    if (Date.now() > end) throw new Error("the server is not ready");
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function stop(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.removeAllListeners("exit");
  running.delete(child);
  child.kill("SIGTERM");
  await once(child, "exit", { signal: AbortSignal.timeout(STOP_MS) });
}

/** For the end of a file: a test that failed must not leave a server behind, nor keep Node waiting for it. */
export function stopAll() {
  for (const child of running) child.kill("SIGKILL");
}
process.on("exit", stopAll);

/** A browser without any background traffic. */
export function startBrowser() {
  return chromium.launch({
    executablePath: process.env.STRATA_CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync",
    ],
  });
}

/**
 * A page that records errors and refuses every request that leaves the server.
 * @param {object} options of the browser's context; `hash` is the view, `prepare` gets the page before it loads
 */
export async function openPage(browser, address, { hash = "", prepare = undefined, ...options } = {}) {
  const context = await browser.newContext({ acceptDownloads: true, ...options });
  const page = await addPage(context, address, { hash, prepare });
  return { ...page, context };
}

/** Makes a page as slow as a loaded machine would, and its storage late. */
async function slowDown(context, page) {
  const session = await context.newCDPSession(page);
  await session.send("Emulation.setCPUThrottlingRate", { rate: SLOWDOWN });
  await page.addInitScript((late) => {
    for (const name of ["getAll", "clear", "delete"]) {
      const own = IDBObjectStore.prototype[name];
      IDBObjectStore.prototype[name] = function (...args) {
        const request = own.apply(this, args);
        const later = { onsuccess: () => {}, onerror: () => {}, result: undefined, error: null };
        request.onsuccess = () => setTimeout(() => { later.result = request.result; later.onsuccess(); }, late);
        request.onerror = () => { later.error = request.error; later.onerror(); };
        return later;
      };
    }
  }, LATE_MS);
}

/** One more tab of the same browser profile. */
export async function addPage(context, address, { hash = "", prepare = undefined } = {}) {
  const page = await context.newPage();
  page.setDefaultTimeout(SETTLE_MS);
  if (SLOWDOWN > 1) await slowDown(context, page);
  const faults = [];
  page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
  page.on("pageerror", (error) => faults.push(String(error)));
  await page.route("**", (route) => {
    if (route.request().url().startsWith(`${address}/`)) return route.continue();
    faults.push(`a request left the server: ${route.request().url()}`);
    return route.abort();
  });
  await prepare?.(page);
  await page.goto(`${address}/${hash}`);
  return { page, faults };
}

/** Sends a message and waits for the end of its answer. @returns {Promise<import("playwright-core").Locator>} */
export async function ask(page, text) {
  const answers = await page.locator("#messages li.assistant").count();
  await page.fill("#question", text);
  await page.press("#question", "Enter");
  const answer = page.locator("#messages li.assistant").nth(answers);
  await answer.locator(".actions").waitFor({ state: "attached" });
  return answer;
}

/** Waits until the header says so. */
export function stateIs(page, text) {
  return shows(page.locator("#state-text"), text);
}

export async function noSideScroll(page) {
  const widths = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
  return { fits: widths[0] <= widths[1], widths };
}
