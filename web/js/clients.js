// How clients connect: a text to copy for each, made for the address of this page. Only clients whose interface this
// server has are shown; the page's tests ask the server whether SERVED is true. Pure.

/** Interfaces for clients that this server answers. */
export const SERVED = ["/v1/chat/completions"];

/**
 * @typedef {object} Client
 * @property {string} name
 * @property {string} needs the interface it speaks
 * @property {string} where the text belongs
 * @property {(site: Site) => string} text
 */

/**
 * @typedef {object} Site
 * @property {string} origin "http://127.0.0.1:8080"
 * @property {string} model
 * @property {boolean} key does the server ask for a key?
 */

/** @param {Site} site */
function keyOf(site) {
  return site.key ? "YOUR-KEY" : "none";
}

/** A text inside single quotes of a shell. @param {string} text */
function shellQuoted(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** @param {Site} site */
function curlText(site) {
  const body = JSON.stringify({ model: site.model, messages: [{ role: "user", content: "Hello!" }] });
  const key = site.key ? " \\\n  -H 'Authorization: Bearer YOUR-KEY'" : "";
  return `curl ${site.origin}/v1/chat/completions -H 'Content-Type: application/json'${key} \\\n  -d ${shellQuoted(body)}`;
}

/** @param {Site} site */
function pythonText(site) {
  return `from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(`${site.origin}/v1`)}, api_key=${JSON.stringify(keyOf(site))})
answer = client.chat.completions.create(
    model=${JSON.stringify(site.model)},
    messages=[{"role": "user", "content": "Hello!"}],
)
print(answer.choices[0].message.content)`;
}

/** @param {Site} site */
function nodeText(site) {
  return `import OpenAI from "openai";

const client = new OpenAI({ baseURL: ${JSON.stringify(`${site.origin}/v1`)}, apiKey: ${JSON.stringify(keyOf(site))} });
const stream = await client.chat.completions.create({
  model: ${JSON.stringify(site.model)},
  stream: true,
  messages: [{ role: "user", content: "Hello!" }],
});
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta?.content ?? "");`;
}

/** @param {Site} site */
function openCodeText(site) {
  return JSON.stringify({
    $schema: "https://opencode.ai/config.json",
    provider: {
      strata: {
        npm: "@ai-sdk/openai-compatible",
        name: "Strata",
        options: { baseURL: `${site.origin}/v1`, apiKey: keyOf(site) },
        models: { [site.model]: { name: site.model } },
      },
    },
    model: `strata/${site.model}`,
  }, null, 2);
}

/** @param {Site} site */
function codexText(site) {
  return `model = ${JSON.stringify(site.model)}
model_provider = "strata"

[model_providers.strata]
name = "Strata"
base_url = ${JSON.stringify(`${site.origin}/v1`)}
wire_api = "responses"${site.key ? '\nenv_key = "STRATA_API_KEY"' : ""}`;
}

/** @param {Site} site */
function anthropicText(site) {
  return `import anthropic

client = anthropic.Anthropic(base_url=${JSON.stringify(site.origin)}, api_key=${JSON.stringify(keyOf(site))})
answer = client.messages.create(
    model=${JSON.stringify(site.model)},
    max_tokens=1024,
    messages=[{"role": "user", "content": "Hello!"}],
)
print(answer.content[0].text)`;
}

/** @param {Site} site */
function claudeCodeText(site) {
  return `export ANTHROPIC_BASE_URL=${site.origin}
export ANTHROPIC_AUTH_TOKEN=${keyOf(site)}
export ANTHROPIC_MODEL=${shellQuoted(site.model)}
claude`;
}

/** @type {Client[]} */
const CLIENTS = [
  { name: "curl", needs: "/v1/chat/completions", where: "a shell", text: curlText },
  { name: "OpenAI for Python", needs: "/v1/chat/completions", where: "pip install openai", text: pythonText },
  { name: "OpenAI for JavaScript", needs: "/v1/chat/completions", where: "npm install openai", text: nodeText },
  { name: "OpenCode", needs: "/v1/chat/completions", where: "opencode.json", text: openCodeText },
  { name: "Codex", needs: "/v1/responses", where: "~/.codex/config.toml", text: codexText },
  { name: "Anthropic for Python", needs: "/v1/messages", where: "pip install anthropic", text: anthropicText },
  { name: "Claude Code", needs: "/v1/messages", where: "a shell", text: claudeCodeText },
];

/** @param {string[]} served */
export function clientsFor(served) {
  return CLIENTS.filter((client) => served.includes(client.needs));
}

/** Every interface that some client needs. */
export function interfacesNeeded() {
  return [...new Set(CLIENTS.map((client) => client.needs))];
}
