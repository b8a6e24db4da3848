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

/** @returns {Record<string, string>} */
function headers() {
  const key = sessionStorage.getItem(KEY);
  return key ? { authorization: `Bearer ${key}` } : {};
}

/** @param {Response} response */
function noteStatus(response) {
  if (response.status === 401) byId("key-form").hidden = false;
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
  const response = await fetch(path, { headers: headers(), cache: "no-store" });
  noteStatus(response);
  if (!response.ok) throw new ServerError(await errorText(response), response.status);
  return response.json();
}

/**
 * Tells the server to do something; throws what it answers instead.
 * @param {"POST"|"DELETE"} method @param {string} path @param {object} [body]
 */
export async function send(method, path, body) {
  const asked = headers();
  if (body) asked["content-type"] = "application/json";
  const response = await fetch(path, { method, headers: asked, body: body ? JSON.stringify(body) : undefined });
  noteStatus(response);
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
  const response = await fetch("/v1/chat/completions", {
    method: "POST",
    headers: { ...headers(), "content-type": "application/json" },
    body: JSON.stringify({
      ...request, stream: true, stream_options: { include_usage: true }, return_progress: true,
    }),
    signal,
  }).catch((error) => {
    if (signal.aborted) throw error;
    throw new ServerError("the server cannot be reached: is strata-serve running?", 0);
  });
  noteStatus(response);
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
