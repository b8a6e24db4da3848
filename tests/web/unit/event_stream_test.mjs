// Protects the reading of event streams: frames may arrive cut anywhere, comments are no frames.
import assert from "node:assert/strict";
import { test } from "node:test";

import { FrameSplitter, frames } from "../../../web/js/event_stream.js";

const STREAM = ': ping\n\ndata: {"a":"ü"}\n\ndata: {"b":2}\r\n\r\nevent: x\ndata: one\ndata: two\n\ndata: [DONE]\n\n';
const EXPECTED = ['{"a":"ü"}', '{"b":2}', "one\ntwo", "[DONE]"];

test("a stream cut at every byte gives the same frames", async () => {
  const bytes = new TextEncoder().encode(STREAM);
  for (let cut = 0; cut <= bytes.length; ++cut) {
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(bytes.slice(0, cut));
        controller.enqueue(bytes.slice(cut));
        controller.close();
      },
    });
    const got = [];
    for await (const data of frames(body)) got.push(data);
    assert.deepEqual(got, EXPECTED, `cut at ${cut}`);
  }
});

test("an unfinished frame is not given out", () => {
  const splitter = new FrameSplitter();
  assert.deepEqual(splitter.feed("data: half"), []);
  assert.deepEqual(splitter.feed(" and half\n"), []);
  assert.deepEqual(splitter.feed("\n"), ["half and half"]);
});
