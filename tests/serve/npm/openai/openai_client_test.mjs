// The openai package as its users call it, against the demo model. The texts are the recorded ones.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";

import OpenAI from "openai";

import { startServer } from "../server.mjs";

const kReference = new URL("../../../../tools/demo_model/strata-demo-reference.json", import.meta.url);
const kLongAnswer = 20_000; // tokens
const kLateMs = 30_000; // for what must come, on a loaded machine, too
const kQuestion = [{ role: "user", content: "What is an otter?" }];

let server;
let client;
let recorded;

before(async () => {
    const reference = JSON.parse(await readFile(kReference, "utf8"));
    recorded = reference.prompts.find((prompt) => prompt.name === "definition").greedy_text
        .replace("<|im_end|>", "");
    server = await startServer();
    client = new OpenAI({ apiKey: "unused", baseURL: `${server.address}/v1` });
});
after(() => server?.stop());

test("a whole answer is the recorded text", async () => {
    const reply = await client.chat.completions.create({ model: "demo", messages: kQuestion });
    assert.equal(reply.choices[0].message.content, recorded);
    assert.equal(reply.choices[0].finish_reason, "stop");
    assert.equal(reply.usage.total_tokens, reply.usage.prompt_tokens + reply.usage.completion_tokens);
});

test("a stream joins to the recorded text and closes with its usage", async () => {
    const stream = await client.chat.completions.create({
        model: "demo", messages: kQuestion, stream: true, stream_options: { include_usage: true },
    });
    let text = "";
    let chunks = 0;
    let finish = null;
    let usage = null;
    for await (const chunk of stream) {
        chunks += 1;
        text += chunk.choices[0]?.delta.content ?? "";
        finish ??= chunk.choices[0]?.finish_reason ?? null;
        usage = chunk.usage ?? usage;
    }
    assert.equal(text, recorded);
    assert.equal(finish, "stop");
    assert.ok(chunks > 10, "it came in pieces");
    assert.ok(usage.prompt_tokens_details.cached_tokens > 0, "the second time is reused");
});

test("thinking comes apart from the answer", async () => {
    const reply = await client.chat.completions.create({
        model: "demo", reasoning_effort: "medium",
        messages: [{ role: "user", content: "What is 23 times 4?" }],
    });
    assert.match(reply.choices[0].message.content, /92/);
    assert.match(reply.choices[0].message.reasoning_content, /20 times 4/);
    assert.ok(reply.usage.completion_tokens_details.reasoning_tokens > 0);
});

test("a bad field is a BadRequestError with its path", async () => {
    await assert.rejects(
        client.chat.completions.create({ model: "demo", messages: kQuestion, temperature: 7 }),
        (error) => error instanceof OpenAI.BadRequestError && error.param === "temperature"
            && error.type === "invalid_request_error");
});

test("a prompt that does not fit says so in the code that agents look for", async () => {
    const content = "otter ".repeat(40_000);
    await assert.rejects(
        client.chat.completions.create({ model: "demo", messages: [{ role: "user", content }] }),
        (error) => error.status === 400 && error.code === "context_length_exceeded"
            && error.error.n_ctx === 32768 && error.error.n_prompt_tokens > 32768);
});

test("an aborted stream frees the engine", async () => {
    const stream = await client.chat.completions.create({
        model: "demo", messages: kQuestion, stream: true, ignore_eos: true, max_tokens: kLongAnswer,
    });
    for await (const chunk of stream) {
        if (chunk.choices[0]?.delta.content) break;
    }
    stream.controller.abort();
    const limit = Date.now() + kLateMs;
    let metrics;
    do {
        metrics = await (await fetch(`${server.address}/metrics`)).json();
    } while (metrics.live.state !== "idle" && Date.now() < limit);
    assert.equal(metrics.live.state, "idle");
    // It did not just come to its end.
    assert.equal(metrics.requests[0].finish, "cancel");
    assert.ok(metrics.requests[0].output_tokens < kLongAnswer, `${metrics.requests[0].output_tokens} tokens`);
});

test("an engine that dies in mid stream is an APIError and the next answer is whole", async () => {
    const stream = await client.chat.completions.create({
        model: "demo", messages: kQuestion, stream: true, ignore_eos: true, max_tokens: kLongAnswer,
    });
    await assert.rejects(async () => {
        let seen = 0;
        for await (const chunk of stream) {
            seen += chunk.choices.length;
            if (seen === 5) server.engineKill();
        }
    }, (error) => error instanceof OpenAI.APIError && /again/.test(error.message));
    const reply = await client.chat.completions.create({ model: "demo", messages: kQuestion });
    assert.equal(reply.choices[0].message.content, recorded);
});

test("models are listed", async () => {
    const list = await client.models.list();
    assert.deepEqual(list.data.map((model) => model.id), ["demo"]);
    assert.equal((await client.models.retrieve("demo")).id, "demo");
});
