// The list of parked conversations as values. Pure.
import { UNKNOWN, byteSize, counted, known, number, span } from "./format.js";

/** @typedef {import("./types").CacheList} CacheList */
/** @typedef {import("./types").CacheEntry} CacheEntry */
/** @typedef {import("./types").Metrics} Metrics */

export const PARKED_HEADS = ["Conversation", "Tokens", "Size", "Only its own", "Last used", "Hits", "Pinned"];

/** @param {CacheEntry} entry */
export function entryName(entry) {
  const name = known(entry.conv) ? `Chat ${entry.conv}` : `Entry ${entry.entry}`;
  const words = entry.first_words || entry.label;
  return words ? `${name}: ${words}` : name;
}

/** @param {CacheEntry} entry @returns {string[]} */
export function entryCells(entry) {
  const age = known(entry.last_used_s) ? `${span(entry.last_used_s)} ago` : UNKNOWN;
  return [
    entryName(entry), number(entry.tokens), byteSize(entry.bytes), byteSize(entry.unique_bytes), age, number(entry.hits),
    entry.pinned ? "yes" : "no",
  ];
}

/** @param {CacheList|null} list @param {Metrics} metrics */
export function parkedWords(list, metrics) {
  if (metrics.live.state === "unloaded") return "No model is loaded: nothing is parked.";
  if (metrics.live.state === "loading" || metrics.live.state === "failed") return "The engine is not ready.";
  if (!list) return "The list is not known.";
  const { entries } = list;
  if (entries.length === 0) return "Nothing is parked: a conversation is parked when another one takes its place.";
  const pinned = entries.filter((entry) => entry.pinned).length;
  return `${counted(entries.length, "conversation")}, ${pinned === 0 ? "none" : number(pinned)} pinned. “Size” counts shared pages in each; “only its own” is what dropping it gives back.`;
}
