// Calls of the server. Owns the API key of this tab (sessionStorage) and the form that asks for it.
import { byId } from "./dom.js";
import { frames } from "./event_stream.js";

const KEY = "strata-api-key";

function headers() {
  const key = sessionStorage.getItem(KEY);
  return key ? { authorization: `Bearer ${key}` } : {};
}

function noteStatus(response) {
  if (response.status === 401) byId("key-form").hidden = false;
}

export function watchKeyForm() {
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(KEY, byId("key").value);
    byId("key").value = "";
    byId("key-form").hidden = true;
  });
}

/** @param {string} path @returns {Promise<any>} */
export async function getJson(path) {
  const response = await fetch(path, { headers: headers(), cache: "no-store" });
  noteStatus(response);
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
}

/** What an error body says, or its status. @param {Response} response */
async function errorText(response) {
  try {
    return (await response.json()).error.message;
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
    body: JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  noteStatus(response);
  if (!response.ok || !response.body) throw new Error(await errorText(response));
  for await (const data of frames(response.body)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Error(chunk.error.message);
    yield chunk;
  }
  throw new Error("the connection ended before the answer did");
}
