// The About view: facts and texts to copy.
import { aboutFacts } from "./about_facts.js";
import { getJson, hasKey } from "./api.js";
import { SERVED, clientsFor } from "./clients.js";
import { copyButton } from "./clipboard.js";
import { byId, element, setText, showPairs } from "./dom.js";
import { onMetrics } from "./monitor.js";

/** @typedef {import("./types").ModelFacts} ModelFacts */

const RETRY_MS = 2000;

/** @type {ModelFacts|null} */
let model = null;

export function modelName() {
  return model?.id ?? "default";
}

function showClients() {
  const site = { origin: location.origin, model: modelName(), key: hasKey() };
  setText("key-note", site.key
    ? "This server asks for a key: put yours in the place of YOUR-KEY."
    : "This server asks for no key. Clients that insist on one get any word.");
  byId("clients").replaceChildren(...clientsFor(SERVED).map((client) => {
    const text = client.text(site);
    const head = element("div", { class: "code-head" },
      element("h3", {}, client.name), element("span", {}, client.where), copyButton(() => text, `the text for ${client.name}`));
    return element("div", { class: "code" }, head,
      element("pre", { tabindex: "0", role: "region", "aria-label": `Text for ${client.name}` }, element("code", {}, text)));
  }));
}

async function findModel() {
  try {
    model = (await getJson("/v1/models")).data[0];
    setText("model", modelName());
    showClients();
  } catch {
    setTimeout(findModel, RETRY_MS);
  }
}

export function startAbout() {
  showClients();
  findModel();
  onMetrics((metrics) => {
    if (metrics) showPairs("facts", aboutFacts(model, metrics, location.origin));
  });
}
