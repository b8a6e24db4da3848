// Loads and unloads the model by hand. Shown only when the server can (`live.unload_in_s` is there).
import { send } from "./api.js";
import { confirmed } from "./dialog.js";
import { byId, setText } from "./dom.js";
import { counted, known } from "./format.js";

/** @typedef {import("./types").Metrics} Metrics */

const UNLOADING = "unloading the model"; // the phase in which neither makes sense

/** @type {Metrics|null} */
let shown = null;

/** @param {Metrics} metrics @returns {{load: boolean, unload: boolean}} which buttons there are */
export function buttonsFor({ live }) {
  const can = live.unload_in_s !== undefined;
  const loaded = ["idle", "reading", "generating"].includes(live.state);
  return { load: can && live.state === "unloaded" && live.phase !== UNLOADING, unload: can && loaded };
}

/** @param {Metrics} metrics */
export function showEngineButtons(metrics) {
  const { load, unload } = buttonsFor(metrics);
  if (shown?.live.state !== metrics.live.state) setText("engine-note", "");
  shown = metrics;
  byId("engine-load").hidden = !load;
  byId("engine-unload").hidden = !unload;
}

/** @param {string} path */
async function tell(path) {
  setText("engine-note", "");
  try {
    await send("POST", path);
  } catch (error) {
    setText("engine-note", error instanceof Error ? error.message : String(error));
  }
}

async function unload() {
  const parked = shown?.conversation_cache?.parked;
  const lost = known(parked) && parked > 0 ? ` ${counted(parked, "parked conversation")} and the live one are lost.` : "";
  if (await confirmed(`Unload the model?${lost} The next request loads it again.`, "Unload")) await tell("/unload");
}

/** @param {() => void} lookNow */
export function startEngineButtons(lookNow) {
  byId("engine-load").addEventListener("click", () => tell("/load").then(lookNow));
  byId("engine-unload").addEventListener("click", () => unload().then(lookNow));
}
