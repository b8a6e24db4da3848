// The chat's words and shares as values: facts of an answer, progress before its first word, fill of the context. Pure.
import { counted, duration, known, number, percent, tokensPerSecond } from "./format.js";
import { progressOf } from "./state_words.js";

/** @typedef {import("./types").AnswerFacts} AnswerFacts */
/** @typedef {import("./types").Live} Live */
/** @typedef {import("./types").Message} Message */

/**
 * @param {any} usage of the last chunk @param {any} timings of the last chunk
 * @param {string} finish @param {number|null} firstMs from sending to the first piece, as this browser saw it
 * @returns {AnswerFacts|undefined} undefined: the server said nothing
 */
export function answerFacts(usage, timings, finish, firstMs) {
  if (!usage) return undefined;
  return {
    output_tokens: usage.completion_tokens,
    prompt_tokens: usage.prompt_tokens,
    reused: usage.prompt_tokens_details?.cached_tokens ?? 0,
    decode_ms: timings?.predicted_ms ?? null,
    ttft_ms: firstMs,
    finish,
  };
}

/** @param {AnswerFacts} facts */
export function factsWords(facts) {
  const words = [counted(facts.output_tokens, "token"), tokensPerSecond(facts.output_tokens, facts.decode_ms)];
  if (known(facts.ttft_ms)) words.push(`first after ${duration(facts.ttft_ms)}`);
  if (facts.finish === "length") words.push("cut at the length limit");
  return words.join(" · ");
}

/** @param {AnswerFacts} facts */
export function reusedWords(facts) {
  return `reused ${number(facts.reused)} of ${counted(facts.prompt_tokens, "token")}`;
}

/**
 * What happens before the first word.
 * @param {any} progress the newest prompt_progress of this answer, if the server sends it
 * @param {Live|null} live what the engine does, for whomever
 * @returns {{words: string, share: number|null}}
 */
export function waitingModel(progress, live) {
  if (progress && known(progress.total) && progress.total > 0) {
    const share = Math.min(1, progress.processed / progress.total);
    return { words: `Reading the prompt: ${number(progress.processed)} of ${number(progress.total)} tokens (${percent(share)})`, share };
  }
  if (!live) return { words: "Waiting for the server", share: null };
  if (live.state === "loading") return { words: "Waiting for the engine to load the model", share: progressOf(live) };
  if (live.queued > 0) return { words: `Waiting: ${counted(live.queued, "request")} in the queue`, share: null };
  if (live.state === "reading") {
    return {
      words: `Reading the prompt: ${number(live.prompt_read)} of ${number(live.prompt_tokens)} tokens (${percent(progressOf(live))})`,
      share: progressOf(live),
    };
  }
  return { words: "Waiting for the first word", share: null };
}

/** Tokens that the conversation has. @param {Message[]} messages @param {number|null|undefined} size of the context */
export function fillModel(messages, size) {
  const facts = messages.findLast((message) => message.facts)?.facts;
  if (!facts || !known(size) || size <= 0) return null;
  const used = facts.prompt_tokens + facts.output_tokens;
  return { share: Math.min(1, used / size), words: `context ${number(used)} of ${number(size)} tokens` };
}
