// Calls of the server. Owns the API key of this tab (sessionStorage) and the form that asks for it.
import { byId } from "./dom.js";
import { frames } from "./event_stream.js";

const KEY = "strata-api-key";

/** What the server answered instead of what was asked for. */
export class ServerError extends Error {
  /** @param {string} message @param {number} status */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** @param {string} path @param {RequestInit} options @returns {Promise<Response>} */
async function fetchWithKey(path, options) {
  const key = sessionStorage.getItem(KEY);
  const headers = new Headers(options.headers);
  if (key) headers.set("authorization", `Bearer ${key}`);
  const response = await fetch(path, { ...options, headers });
  // What was asked with the key before, or with none, says nothing about the one that was given since.
  if (response.status === 401 && key === sessionStorage.getItem(KEY)) byId("key-form").hidden = false;
  return response;
}

export function watchKeyForm() {
  byId("key-form").addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    sessionStorage.setItem(KEY, byId("key").value);
    byId("key").value = "";
    byId("key-form").hidden = true;
  });
}

/** Does this tab use a key? */
export function hasKey() {
  return sessionStorage.getItem(KEY) !== null;
}

/** @param {string} path @returns {Promise<any>} */
export async function getJson(path) {
  const response = await fetchWithKey(path, { cache: "no-store" });
  if (!response.ok) throw new ServerError(await errorText(response), response.status);
  return response.json();
}

/**
 * Tells the server to do something; throws what it answers instead.
 * @param {"POST"|"DELETE"} method @param {string} path @param {object} [body]
 */
export async function send(method, path, body) {
  const response = await fetchWithKey(path, body
    ? { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) } : { method });
  if (!response.ok) throw new ServerError(await errorText(response), response.status);
}

/** What an error body says, or its status. @param {Response} response @returns {Promise<string>} */
async function errorText(response) {
  try {
    return String((await response.json()).error.message);
  } catch {
    return `the server answered ${response.status}`;
  }
}

/**
 * Streams an answer. Yields the chunks of /v1/chat/completions as they come.
 * @param {object} request
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<any>}
 */
export async function* chat(request, signal) {
  const response = await fetchWithKey("/v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      ...request, stream: true, stream_options: { include_usage: true }, return_progress: true,
    }),
    signal,
  }).catch((error) => {
    if (signal.aborted) throw error;
    throw new ServerError("the server cannot be reached: is strata-serve running?", 0);
  });
  if (!response.ok || !response.body) throw new ServerError(await errorText(response), response.status);
  yield* chunks(response.body, signal);
}

/** @param {ReadableStream<Uint8Array>} body @param {AbortSignal} signal @returns {AsyncGenerator<any>} */
async function* chunks(body, signal) {
  const cut = new ServerError("the connection ended before the answer did: the server is gone, or the network is", 0);
  try {
    for await (const data of frames(body)) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new ServerError(String(chunk.error.message), 200);
      yield chunk;
    }
  } catch (error) {
    if (signal.aborted || error instanceof ServerError) throw error;
    throw cut;
  }
  throw cut;
}
