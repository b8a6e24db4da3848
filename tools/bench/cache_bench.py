#!/usr/bin/env python3
"""How fast the conversation cache brings a long conversation back, and what parking it again copies.

usage: cache_bench.py --engine FILE --model FILE [--tokens N] [--rounds N] [--threads N] [--json FILE]

A conversation of N tokens (20,000) and a short one alternate. Times are the engine's own: `ms` of CONV
and restore_ms of DONE; bytes are those of CONV. Bringing back moves the pages and the running state to
where the model computes, after every checksum was compared. Parking again may copy only the pages that
the last turn wrote, and the running state.
Exit status: 0 both as wanted, 1 not, 2 it could not be measured.
"""
import argparse
import json
import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from parity import engine, ledger, prompts, tokens, world  # noqa: E402

WANTED_GB_S = 2.0
BUDGET_MIB = 512
WRITTEN = 32
SHORT_TOKENS = 200
ROUNDS_MAX = 9  # turns of prompts.asks()


class Alternation:
    """Two conversations in turn on one engine; the books say which pages are new."""

    def __init__(self, process, vocabulary, long_tokens):
        self.process = process
        self.geometry = ledger.Geometry(process.info, vocabulary.turn_open)
        self.books = ledger.Ledger(self.geometry, BUDGET_MIB << 20)
        self.chats = [prompts.chat(vocabulary, 0, long_tokens), prompts.chat(vocabulary, 1, SHORT_TOKENS)]
        self.said = [None, None]

    def ask(self, which, turn):
        """-> (reply, what the books say about parking)."""
        chat, before = self.chats[which], self.said[which]
        prompt = chat.first() if before is None else chat.next(*before, turn)
        reply = self.process.ask(prompt, chat.root, WRITTEN)
        self.said[which] = (prompt, reply.ids)
        rows = world.rows_of(prompt, reply)
        _, conv = self.books.step(ledger.Request(prompt, chat.root, "", reply.ids, rows))
        return reply, next((each for each in conv if each["kind"] == "park"), None)


def event(reply, kind):
    found = next((each for each in reply.conv if each.fields[0] == kind), None)
    if found is None:
        raise engine.EngineDied(f"no CONV {kind}: {reply.done.event!r}")
    return found


def restore_row(reply):
    restore = event(reply, "restore")
    milliseconds = float(reply.done.event.get("restore_ms", "nan"))
    size = restore.number("bytes")
    return {"tokens": reply.done.reused, "bytes": size, "ms": milliseconds, "gb_s": size / milliseconds / 1e6}


def park_row(reply, books, geometry):
    """Parking the long conversation: what was newly written, and what the rule allows: new pages and the tail."""
    park = event(reply, "park")
    allowed = books["new_pages"] * geometry.page_bytes + geometry.state_bytes
    return {"tokens": park.number("tokens"), "bytes": park.number("bytes"), "allowed": allowed,
            "whole": geometry.image_bytes(books["tokens"], 0),
            "ms": float(reply.done.event.get("park_ms", "nan"))}


def measure(options):
    vocabulary = tokens.load(options.model)
    flags = ["--conversation-cache-mib", str(BUDGET_MIB), "--conversation-cache-min-free-mib", "0"]
    flags += ["--threads", str(options.threads)] if options.threads else []
    restores, parks = [], []
    with engine.Engine(options.engine, options.model, flags) as process:
        play = Alternation(process, vocabulary, options.tokens)
        play.ask(0, 0)
        play.ask(1, 0)
        for turn in range(1, options.rounds + 1):
            restores.append(restore_row(play.ask(0, turn)[0]))
            reply, books = play.ask(1, turn)
            parks.append(park_row(reply, books, play.geometry))
        return {"info": process.info, "restores": restores, "parks": parks}


def show(result):
    """Prints both tables. -> True when both are as wanted."""
    print("restore      tokens        bytes       ms     GB/s")
    for row in result["restores"]:
        print(f"{row['tokens']:>18} {row['bytes']:>12} {row['ms']:>8.1f} {row['gb_s']:>8.2f}")
    rate = statistics.median(row["gb_s"] for row in result["restores"])
    print(f"median {rate:.2f} GB/s, wanted {WANTED_GB_S} or more\n")
    print("park again   tokens        bytes  allowed bytes  whole snapshot       ms")
    for row in result["parks"]:
        print(f"{row['tokens']:>18} {row['bytes']:>12} {row['allowed']:>14} {row['whole']:>15} {row['ms']:>8.1f}")
    within = all(row["bytes"] <= row["allowed"] < row["whole"] for row in result["parks"])
    print("only new pages are copied" if within else "more than the new pages was copied")
    result.update(median_gb_s=rate, only_new_pages=within)
    return rate >= WANTED_GB_S and within


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--engine", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5, choices=range(1, ROUNDS_MAX + 1))
    parser.add_argument("--threads", type=int)
    parser.add_argument("--json")
    options = parser.parse_args()
    try:
        result = measure(options)
    except (engine.EngineDied, OSError, ValueError) as fault:
        print(fault, file=sys.stderr)
        return 2
    good = show(result)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)
            file.write("\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
