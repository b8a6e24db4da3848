#!/usr/bin/env python3
"""Generate ChatML training conversations for the Strata demo model (deterministic for a seed).

`conversation(r, lexicon)` returns (messages, render options, checks); every check is
(kind, index of the assistant message) of an answer that can be scored by exact match.
"""

import json
import random
import sys

import pools as P
from chat_format import render
from conversations import Conversation
from tool_turns import CALC_TOOL, WEATHER_TOOL


def conversation(r, lex):
    """-> (messages, render options, checks)"""
    if not P.WORDS:
        P.WORDS.extend(w[0] for w in lex["words"])
    k = r.random()
    if k < 0.16:  # one or two turns
        chars = 1
    elif k < 0.45:
        chars = r.randint(200, 1500)
    elif k < 0.70:
        chars = r.randint(1500, 5000)
    elif k < 0.86:
        chars = r.randint(5000, 9500)
    else:
        chars = r.randint(9500, 15500)
    c = Conversation(r, lex, chars)
    c.build()
    k = r.random()
    options = {"preserve_thinking": r.random() < 0.5}
    if k < 0.22:
        options["enable_thinking"] = True
        effort = r.choice(["low", "medium", "high", None])
        if effort:
            options["reasoning_effort"] = effort
        level = effort or "medium"
    if c.tools:
        options["tools"] = [
            {
                "type": "function",
                "function": {"get_weather": WEATHER_TOOL, "calculator": CALC_TOOL}[t],
            }
            for t in c.tools
        ]
    for m in c.messages:
        why = m.pop("why", None)
        if m["role"] == "assistant" and options.get("enable_thinking") and why:
            m["reasoning_content"] = why[level]
    return c.messages, options, c.checks


def main():
    seed, n = int(sys.argv[1]), int(sys.argv[2])
    lex = json.load(open("lexicon.json", encoding="utf-8"))
    r = random.Random(seed)
    for _ in range(n):
        messages, options, checks = conversation(r, lex)
        print(render(messages, **options))
        print("=====", options.keys(), checks[:8])


if __name__ == "__main__":
    main()
