// The tiles beside the chat: polls /metrics once a second, never while the tab is hidden.
import { getJson } from "./api.js";
import { byId, element, sparkline } from "./dom.js";
import {
  UNKNOWN, contextModel, machineModel, nowModel, pill, requestModel, sparkModel, speedModel,
} from "./view_models.js";

const POLL_MS = 1000;

function showPill(model) {
  const node = byId("state");
  if (node.textContent !== model.text) node.textContent = model.text;
  node.classList.toggle("bad", model.bad);
  document.title = `${model.text} · Strata`;
}

function showNow(model) {
  byId("now-words").textContent = model.words || UNKNOWN;
  const bar = byId("now-progress");
  bar.hidden = model.share === null || model.share === undefined;
  if (!bar.hidden) bar.value = model.share;
  byId("now-queue").textContent = model.queue;
}

function showSpeed(metrics) {
  const speed = speedModel(metrics.requests);
  const rows = [
    ["Reading", speed.read, sparkModel(metrics.history, "read_tokens")],
    ["Writing", speed.wrote, sparkModel(metrics.history, "written_tokens")],
  ];
  byId("speed").replaceChildren(
    ...rows.flatMap(([name, value, spark]) => [
      element("dt", {}, name), element("dd", {}, value), element("dd", { class: "chart" }, sparkline(spark)),
    ]),
  );
}

function showPairs(id, pairs) {
  byId(id).replaceChildren(...pairs.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

function showRequests(rows) {
  const body = byId("requests").tBodies[0];
  body.replaceChildren(
    ...rows.slice(0, 20).map((row) =>
      element("tr", {}, ...requestModel(row).map(([name, value]) => element("td", { "data-name": name }, value))),
    ),
  );
  byId("requests-empty").hidden = rows.length > 0;
}

/** @param {any} metrics */
function show(metrics) {
  showPill(pill(metrics.live));
  showNow(nowModel(metrics.live));
  showSpeed(metrics);
  const context = contextModel(metrics);
  byId("context-words").textContent = context.words;
  byId("context-fill").value = context.share;
  showPairs("machine", machineModel(metrics.hardware));
  showRequests(metrics.requests);
}

export function startMonitor() {
  const poll = async () => {
    if (!document.hidden) {
      try {
        show(await getJson("/metrics"));
      } catch {
        showPill({ text: "no connection", bad: true });
      }
    }
    setTimeout(poll, POLL_MS);
  };
  poll();
}
