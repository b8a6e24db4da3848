// Starts strata-serve on a free port and a browser page on it; ends both.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chromium } from "playwright-core";

const BIN = process.env.STRATA_BIN_DIR;
const START_MS = 60_000;

/** @param {string[]} options */
export async function startServer(options = []) {
  const child = spawn(`${BIN}/strata-serve`, ["--model", "demo", "--port", "0", ...options], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let log = "";
  const address = await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no address after ${START_MS} ms:\n${log}`)), START_MS);
    const take = (bytes) => {
      log += bytes;
      const match = log.match(/http:\/\/127\.0\.0\.1:(\d+)/);
      if (match) {
        clearTimeout(timer);
        resolve(match[0]);
      }
    };
    child.stdout.on("data", take);
    child.stderr.on("data", take);
    child.on("exit", (code) => reject(new Error(`strata-serve ended with ${code}:\n${log}`)));
  });
  await ready(address);
  return { address, child, log: () => log, stop: () => stop(child) };
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
  child.kill("SIGTERM");
  await once(child, "exit");
}

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

/** A page that records errors and refuses every request that leaves the server. */
export async function openPage(browser, address, options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const faults = [];
  page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
  page.on("pageerror", (error) => faults.push(String(error)));
  await page.route("**", (route) => {
    if (route.request().url().startsWith(`${address}/`)) return route.continue();
    faults.push(`a request left the server: ${route.request().url()}`);
    return route.abort();
  });
  await page.goto(address);
  return { page, faults };
}
