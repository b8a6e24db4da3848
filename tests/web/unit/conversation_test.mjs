// Protects what is sent of a conversation and what a file of chats may bring in.
import assert from "node:assert/strict";
import { test } from "node:test";

import { answerFacts, factsWords, fillModel, reusedWords, waitingModel } from "../../../web/js/chat_words.js";
import {
  cutBefore, exportText, freshConversation, importText, requestMessages, titleOf,
} from "../../../web/js/conversation.js";

let count = 0;
const freshId = () => `id${++count}`;

test("user and assistant go out in turn and a failed answer does not", () => {
  const messages = [
    { role: "user", content: "a" },
    { role: "assistant", content: "", error: "lost" },
    { role: "user", content: "b" },
    { role: "assistant", content: "half", stopped: true },
    { role: "user", content: "c" },
    { role: "assistant", content: "x", reasoning: "why", facts: {} },
  ];
  assert.deepEqual(requestMessages(messages), [
    { role: "user", content: "a\n\nb" },
    { role: "assistant", content: "half" },
    { role: "user", content: "c" },
    { role: "assistant", content: "x", reasoning_content: "why" },
  ]);
  assert.equal(messages[0].content, "a");
});

test("a conversation is cut before the message that is edited", () => {
  const messages = [{ role: "user", content: "a" }, { role: "assistant", content: "b" }];
  assert.deepEqual(cutBefore(messages, 1), [messages[0]]);
  assert.deepEqual(cutBefore(messages, -1), []);
});

test("the title is the beginning of the first question", () => {
  assert.equal(titleOf([]), "New chat");
  assert.equal(titleOf([{ role: "user", content: "  two\n words " }]), "two words");
  assert.equal([...titleOf([{ role: "user", content: "x".repeat(500) }])].length, 60);
});

test("what was exported comes back under ids of its own", () => {
  const chat = freshConversation("one", 5);
  chat.messages = [{ role: "user", content: "q" }, { role: "assistant", content: "a", reasoning: "r", facts: { output_tokens: 1 } }];
  chat.title = "q";
  const { conversations, fault } = importText(exportText([chat]), freshId, 9);
  assert.equal(fault, "");
  assert.equal(conversations.length, 1);
  assert.notEqual(conversations[0].id, "one");
  assert.equal(conversations[0].created, 5);
  assert.deepEqual(conversations[0].messages, [{ role: "user", content: "q" }, { role: "assistant", content: "a", reasoning: "r" }]);
});

test("a file that is not ours is refused whole with its reason", () => {
  const file = (conversations) => JSON.stringify({ kind: "strata-chats", version: 1, conversations });
  const refused = [
    ["", /no JSON/], ["[]", /no file of exported chats/], ["null", /no file of exported chats/],
    ['{"kind":"strata-chats","version":2,"conversations":[]}', /version 2/],
    [file([null]), /chat 1/], [file([{ messages: [] }, { messages: [{ role: "system", content: "x" }] }]), /chat 2/],
    [file([{ messages: [{ role: "user", content: 5 }] }]), /chat 1/], [file([{ messages: "x" }]), /chat 1/],
    [file([{ messages: Array(10_001).fill({ role: "user", content: "x" }) }]), /chat 1/],
  ];
  for (const [text, why] of refused) {
    const { conversations, fault } = importText(text, freshId, 0);
    assert.deepEqual(conversations, [], text);
    assert.match(fault, why);
  }
});

test("an imported chat has no keys but the known ones", () => {
  const text = '{"kind":"strata-chats","version":1,"conversations":[{"id":"evil","title":"<b>","__proto__":{"x":1},"messages":' +
    '[{"role":"user","content":"hi","html":"<img>","facts":{"output_tokens":"<img>"}}]}]}';
  const [chat] = importText(text, freshId, 1).conversations;
  assert.deepEqual(Object.keys(chat).sort(), ["created", "id", "messages", "revision", "title", "updated"]);
  assert.deepEqual(chat.messages, [{ role: "user", content: "hi" }]);
  assert.equal(chat.title, "hi");
});

test("the facts of an answer say what was reused and leave out what is unknown", () => {
  const usage = { completion_tokens: 214, prompt_tokens: 1200, prompt_tokens_details: { cached_tokens: 1100 } };
  const facts = answerFacts(usage, { predicted_ms: 2000 }, "length", 480);
  assert.equal(reusedWords(facts), "reused 1,100 of 1,200 tokens");
  assert.equal(factsWords(facts), "214 tokens · 107 tok/s · first after 480 ms · cut at the length limit");
  assert.equal(answerFacts(null, null, "", null), undefined);
  assert.equal(factsWords(answerFacts({ completion_tokens: 1, prompt_tokens: 2 }, null, "stop", null)), "1 token · –");
});

test("before the first word the answer says what it waits for", () => {
  const live = { state: "reading", queued: 0, prompt_tokens: 400, prompt_read: 100 };
  assert.deepEqual(waitingModel({ total: 1000, processed: 250 }, live), {
    words: "Reading the prompt: 250 of 1,000 tokens (25 %)", share: 0.25,
  });
  assert.deepEqual(waitingModel(null, live), { words: "Reading the prompt: 100 of 400 tokens (25 %)", share: 0.25 });
  assert.match(waitingModel(null, { ...live, queued: 2 }).words, /2 requests in the queue/);
  assert.deepEqual(waitingModel(null, { state: "loading", load_progress: 0.5, queued: 0 }).share, 0.5);
  assert.equal(waitingModel(null, null).share, null);
});

test("the context meter needs an answer and a size", () => {
  const messages = [{ role: "assistant", content: "", facts: { prompt_tokens: 100, output_tokens: 28 } }, { role: "user", content: "" }];
  assert.equal(fillModel([], 1000), null);
  assert.equal(fillModel(messages, null), null);
  assert.deepEqual(fillModel(messages, 1024), { share: 0.125, words: "context 128 of 1,024 tokens" });
});
