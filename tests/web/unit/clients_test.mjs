// Protects the texts to copy: each is whole for any model name and address, and only served interfaces are shown.
import assert from "node:assert/strict";
import { test } from "node:test";

import { SERVED, clientsFor, interfacesNeeded } from "../../../web/js/clients.js";

const SITE = { origin: "http://10.0.0.5:8099", model: "it's \"a\" model", key: false };

test("a client is shown when the server speaks its interface", () => {
  assert.deepEqual(clientsFor([]), []);
  const names = clientsFor(SERVED).map((client) => client.name);
  for (const name of ["curl", "OpenAI for Python", "OpenAI for JavaScript", "OpenCode"]) assert.ok(names.includes(name), name);
  const all = clientsFor(interfacesNeeded()).map((client) => client.name);
  for (const name of ["Codex", "Anthropic for Python", "Claude Code"]) assert.ok(all.includes(name), name);
});

test("every text has the live address and asks for a key only when the server does", () => {
  for (const client of clientsFor(interfacesNeeded())) {
    assert.ok(client.text(SITE).includes("http://10.0.0.5:8099"), client.name);
    assert.ok(!client.text(SITE).includes("YOUR-KEY"), client.name);
    const text = client.text({ ...SITE, key: true });
    assert.match(text, /YOUR-KEY|STRATA_API_KEY/, client.name);
  }
});

test("the body of the curl line and the OpenCode file are JSON", () => {
  const [curl, , , openCode] = clientsFor(["/v1/chat/completions"]);
  const quoted = /-d '(.*)'$/s.exec(curl.text(SITE))[1].replaceAll("'\\''", "'");
  assert.equal(JSON.parse(quoted).model, SITE.model);
  const file = JSON.parse(openCode.text(SITE));
  assert.equal(file.model, `strata/${SITE.model}`);
  assert.equal(file.provider.strata.options.baseURL, "http://10.0.0.5:8099/v1");
});
