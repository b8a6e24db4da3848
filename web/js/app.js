// Puts the page together.
import { getJson, watchKeyForm } from "./api.js";
import { startChat } from "./chat.js";
import { byId } from "./dom.js";
import { startMonitor } from "./monitor.js";

async function showModel() {
  try {
    const models = await getJson("/v1/models");
    byId("model").textContent = models.data[0].id;
  } catch {
    setTimeout(showModel, 2000);
  }
}

watchKeyForm();
startChat();
startMonitor();
showModel();
