// Server-sent events out of a fetch() body.

/**
 * Splits a growing text into the data of whole frames.
 */
export class FrameSplitter {
  constructor() {
    this.rest = "";
  }

  /** @param {string} text @returns {string[]} the `data:` of every frame that is whole now */
  feed(text) {
    // After joining: a CR may have come at the end of the piece before.
    const frames = (this.rest + text).replaceAll("\r\n", "\n").split("\n\n");
    this.rest = frames.pop() ?? "";
    const out = [];
    for (const frame of frames) {
      const lines = frame.split("\n").filter((line) => line.startsWith("data:"));
      if (lines.length > 0) out.push(lines.map((line) => line.slice(5).replace(/^ /, "")).join("\n"));
    }
    return out;
  }
}

/**
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<string>}
 */
export async function* frames(body) {
  const splitter = new FrameSplitter();
  const decoder = new TextDecoder();
  const reader = body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield* splitter.feed(decoder.decode(value, { stream: true }));
  }
}
