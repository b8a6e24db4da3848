#!/usr/bin/env python3
"""An engine without a model: it keeps the books of tools/parity/ledger.py and answers by rule, so that
the scenarios can be shown to pass on a right transcript and to fail on a wrong one.

PARITY_FAKE_WRONG names one deviation (WRONGS below); without it every line is right. The answer to a
question is the codeword that the prompt itself holds; hashes are of the ids, so that equal
conversations have equal hashes.
"""
import argparse
import hashlib
import os
import pathlib
import re
import select
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

from parity import ledger, tokens  # noqa: E402

MIB = 1 << 20
INFO = {"protocol": 1, "context": 32768, "kv": "f16", "page_tokens": 256, "prompt_cache": 6, "prompt_cache_every": 16384,
        "prompt_cache_root": 2048, "kv_bytes_per_token": 1024, "state_bytes": 860160}
IDLE_S = 0.1
WRONGS = ("flipped_page", "skipped_restore", "forced_hit", "whole_park", "double_count", "parks_too_much",
          "eviction_uncounted", "too_large_as_budget", "floor_ignored", "superseded_stays", "other_evicted",
          "steering_ignored", "no_events", "memory", "foreign_answer", "reused_too_much", "old_fields",
          "lost_uncounted", "re_read_differs", "list_wrong", "end_wrong", "budget_not_told", "leaves_badly", "other_tokens",
          "pin_ignored", "pressure_unheard", "line_of_old")


def sha(*parts):
    return hashlib.sha256(repr(parts).encode()).hexdigest()


class WrongLedger(ledger.Ledger):
    """The books with one rule broken."""
    wrong = ""

    def fits(self, kept, image, plan):
        return self.wrong == "parks_too_much" or super().fits(kept, image, plan)

    def superseded(self, old, by, first):
        return self.wrong != "superseded_stays" and super().superseded(old, by, first)

    def plan(self, request):
        if self.wrong == "steering_ignored":
            request = request._replace(steer="off")
        return super().plan(request)

    def step(self, request):
        if self.wrong == "floor_ignored":
            self.floor_blocks = False
        out, conv = super().step(request)
        if self.wrong == "other_evicted" and len(self.live.marks) == 6 and self.entries:
            self.entries.pop(0)
        return out, conv


def options(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    for name in ("--chunk-ms", "--threads", "--host-memory-file", "--control-vector"):
        parser.add_argument(name)
    for name, otherwise in (("cache-mib", 0), ("cache-slots", 4), ("cache-min-free-mib", 2560)):
        parser.add_argument(f"--conversation-{name}", type=int, default=otherwise)
    parser.add_argument("--exact", action="store_true")
    return parser.parse_args(argv)


class FakeEngine:
    def __init__(self, chosen, wrong):
        self.wrong, self.chosen = wrong, chosen
        self.vocabulary = tokens.load(chosen.model)
        budget = chosen.conversation_cache_mib
        self.books = WrongLedger(ledger.Geometry(INFO, self.vocabulary.turn_open), budget * MIB,
                                 chosen.conversation_cache_slots)
        self.books.wrong = wrong
        self.books.floor_blocks = chosen.conversation_cache_min_free_mib > 10_000 and bool(budget)
        self.told = {**INFO, "vocab": len(self.vocabulary),
                     "conversation_cache_mib": budget if wrong != "budget_not_told" else 0}
        self.balloon = None

    def say(self, line):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def run(self):
        self.say("INFO " + " ".join(f"{k}={v}" for k, v in self.told.items()))
        self.say("READY 32768 stop id cache ping batch=1")
        for line in self.lines():
            verb, _, rest = line.partition(" ")
            if verb == "QUIT":
                break
            {"GEN": self.generate, "CACHE": self.cache_command, "TRIM": self.trim}[verb](rest)
        return 1 if self.wrong == "leaves_badly" and self.books.budget else 0

    def lines(self):
        """Lines of stdin; while none comes, the memory is looked at."""
        rest = b""
        while True:
            while not select.select([0], [], [], IDLE_S)[0]:
                self.look_while_idle()
            more = os.read(0, 1 << 16)
            if not more:
                return
            *whole, rest = (rest + more).split(b"\n")
            for each in whole:
                yield each.decode().strip()

    def look_while_idle(self):
        floor = self.chosen.conversation_cache_min_free_mib
        available = self.available_mib()
        parked = any(not entry.pinned for entry in self.books.entries)
        if not self.books.budget or not parked or available >= floor or self.wrong == "pressure_unheard":
            return
        gone = self.books.release_all()
        form = "%d dialogs, %d MiB (dropped)" if self.wrong != "line_of_old" else "%d conversations, %d MiB"
        sys.stderr.write(f"conversation cache: RAM below the floor: released {form % (gone, gone)} in 1 ms; idle: "
                         f"{available} -> {available} MiB available, floor {floor} MiB + 1024; "
                         f"parked={len(self.books.entries)}\n")
        sys.stderr.flush()

    def available_mib(self):
        if not self.chosen.host_memory_file:
            return 1 << 20
        with open(self.chosen.host_memory_file) as file:
            return int(file.read())

    # ---- one answer
    def answer(self, prompt, steer):
        """What a model that listens would say."""
        text = self.vocabulary.decode(prompt)
        asked = re.findall(r"<\|im_start\|>user\n(.*?)<\|im_end\|>", text, re.S)[-1]
        facts = re.search(r"codename is ([A-Za-z ]+), my locker code is ([0-9]+) and I live in ([A-Za-z]+)", text)
        codename, code, city = facts.groups() if facts else ("", "", "")
        words = f"You live in {city}." if "Where" in asked else (
            f"Your locker code is {code}." if asked.startswith("What is my locker") else f"Your codename is {codename}.")
        return self.vocabulary.encode(words + (" Wind." if steer not in ("", "off") else ""))

    def generate(self, rest):
        words = rest.split(" ")
        names = dict(word.split("=", 1) for word in words[1:])
        prompt, steer = [int(n) for n in names["ids"].split(",")], names.get("steer", "")
        ids = self.answer(prompt, steer)
        finish = "stop"
        if names.get("ignore_eos") == "1":
            ids, finish = (ids + [ids[0]] * int(words[0]))[:int(words[0])], "length"
        rows = len(prompt) + len(ids) - (finish == "length")
        out, conv = self.books.step(ledger.Request(prompt, int(names["root"]), steer, ids, rows))
        out.update(finish=finish, written=ids, logits=sha("logits", steer, prompt),
                   state=sha("state", steer, (prompt + ids)[:rows]))
        self.deviate(out, conv)
        self.print_answer(names["id"], len(prompt), out, conv)

    def deviate(self, out, conv):
        """The deviations that only the told figures show."""
        wrong, back = self.wrong if self.books.budget else "", out["restored"]
        if wrong == "flipped_page" and back:
            out["state"] = sha("flipped", out["state"])
        if wrong == "skipped_restore" and back:
            out["state"], out["logits"] = sha("zeros"), sha("other logits")
        if wrong == "forced_hit" and out.get("miss") == "evicted":
            out["restored"] = 1
        if wrong == "foreign_answer" and back:
            out["written"] = self.vocabulary.encode("Your codename is Black Otter.")
        if wrong == "other_tokens" and back:
            out["written"] = out["written"] + out["written"][-1:]
        if wrong == "re_read_differs" and out.get("miss") == "released":
            out["logits"] = sha("rounded otherwise")
        if wrong == "double_count":
            out["bytes"] = sum(len(e.pages) for e in self.books.entries) * self.books.geometry.page_bytes + sum(
                len(e.marks) + 1 for e in self.books.entries) * self.books.geometry.state_bytes
        if wrong == "reused_too_much" and back:
            out["reused"], out["read"] = out["reused"] + 1, out["read"] - 1
        if wrong == "eviction_uncounted":
            out["evictions"] = 0
        if wrong == "lost_uncounted":
            out["lost"] = 0
        if wrong == "too_large_as_budget" and out.get("park_skip") == "too_large":
            out["park_skip"] = "budget"
        if wrong == "no_events":
            conv.clear()
        if wrong == "memory" and self.balloon is None:
            self.balloon = bytearray(b"x") * (450 * MIB)
            time.sleep(0.2)

    def print_answer(self, request_id, prompt_tokens, out, conv):
        self.say(f"RESUME {out['reused']} id={request_id} source={out['source']}")
        self.say(f"PP {prompt_tokens} {prompt_tokens} 1.0 1000.0 id={request_id}")
        for each in out["written"]:
            self.say(f"T {each} id={request_id}")
        for each in conv:
            more = f" reason={each['reason']}" if "reason" in each else ""
            if each["kind"] == "park":
                pages = each["new_pages"] if self.wrong != "whole_park" else self.books.geometry.pages(each["tokens"])
                size = pages * self.books.geometry.page_bytes + self.books.geometry.state_bytes
                more = f" tokens={each['tokens']} bytes={size}"
            self.say(f"CONV {each['kind']}{more} id={request_id}")
        fields = [len(out["written"]), prompt_tokens, "1.0", "1.0", out["finish"], 0, 0, out["reused"], 0, 0, 0, 0, 0, out["read"]]
        if self.wrong != "old_fields":
            fields += [out[name] for name in ("switched", "restored", "parked", "bytes", "evictions")]
        names = {name: out[name] for name in ("source", "miss", "parked_now", "park_skip", "retained", "superseded",
                                              "released", "lost", "checkpoints") if name in out}
        names.update(logits_sha256=out["logits"], state_sha256=out["state"])
        self.say(" ".join(map(str, ["DONE", *fields, f"id={request_id}", *(f"{k}={v}" for k, v in names.items())])))

    # ---- the others
    def cache_command(self, rest):
        command, _, name = rest.partition(" entry=")
        if command in ("pin", "unpin") and self.wrong != "pin_ignored":
            next(each for each in self.books.entries if each.tail == int(name)).pinned = command == "pin"
        geometry = self.books.geometry
        for entry in self.books.entries:
            entries, before = self.books.entries, self.books.held_bytes()
            self.books.entries = [each for each in entries if each is not entry]
            unique = before - self.books.held_bytes()
            self.books.entries = entries
            size = geometry.image_bytes(len(entry.ids), len(entry.marks)) + (self.wrong == "list_wrong")
            self.say(f"CACHE entry={entry.tail} tokens={len(entry.ids)} bytes={size} unique_bytes={unique}")
        held = self.books.held_bytes() + (self.wrong == "end_wrong")
        self.say(f"CACHE end parked={len(self.books.entries)} held={held}")

    def trim(self, _):
        floor, available = self.chosen.conversation_cache_min_free_mib, self.available_mib()
        gone = self.books.release_all() if available < floor else 0
        for _ in range(gone):
            self.say("CONV release tokens=1")
        self.say(f"PRESSURE available_before_mib={available} floor_mib={floor} released_dialogs={gone} "
                 f"parked={len(self.books.entries)} where=command")


if __name__ == "__main__":
    deviation = os.environ.get("PARITY_FAKE_WRONG", "")
    if deviation and deviation not in WRONGS:
        sys.exit(f"PARITY_FAKE_WRONG is {deviation}, known are {', '.join(WRONGS)}")
    sys.exit(FakeEngine(options(sys.argv[1:]), deviation).run())
