// One answer while it is written: takes the stream into its message, counts what the browser saw, can be stopped.
import { chat } from "./api.js";
import { answerFacts } from "./chat_words.js";

/** @typedef {import("./types").Message} Message */

export class AnswerRun {
  /** @param {object} request @param {Message} message is filled @param {() => void} changed told of every piece */
  constructor(request, message, changed) {
    this.request = request;
    this.message = message;
    this.changed = changed;
    this.controller = new AbortController();
    this.began = performance.now();
    this.first = /** @type {number|null} */ (null); // ms from sending to the first piece
    this.progress = /** @type {any} */ (null);
    this.ended = false;
  }

  stop() {
    this.controller.abort();
  }

  /** Never throws: what went wrong stands in the message. */
  async go() {
    const last = { usage: null, timings: null, finish: "" };
    try {
      for await (const chunk of chat(this.request, this.controller.signal)) {
        this.take(chunk);
        last.usage = chunk.usage ?? last.usage;
        last.timings = chunk.timings ?? last.timings;
        last.finish = chunk.choices?.[0]?.finish_reason ?? last.finish;
      }
    } catch (error) {
      if (this.controller.signal.aborted) this.message.stopped = true;
      else this.message.error = error instanceof Error ? error.message : String(error);
    }
    delete this.message.unfinished;
    this.message.facts = answerFacts(last.usage, last.timings, last.finish, this.first);
    this.ended = true;
    this.changed();
  }

  /** @param {any} chunk */
  take(chunk) {
    if (chunk.prompt_progress) this.progress = chunk.prompt_progress;
    const delta = chunk.choices?.[0]?.delta ?? {};
    const reasoning = delta.reasoning_content ?? delta.reasoning ?? "";
    const content = delta.content ?? "";
    if (reasoning || content) this.first ??= performance.now() - this.began;
    if (reasoning) this.message.reasoning = (this.message.reasoning ?? "") + reasoning;
    if (content) this.message.content += content;
    this.changed();
  }
}
