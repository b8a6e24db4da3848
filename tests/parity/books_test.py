#!/usr/bin/env python3
"""The independent check is itself checked: the books against figures computed by hand, the reader of
lines against good and bad ones, tokens against recorded ids.

usage: books_test.py MODEL REFERENCE_JSON IDS_JSON
"""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

from parity import gguf, ledger, tokens, wire  # noqa: E402

MODEL, REFERENCE, IDS = sys.argv[1:4]
OPEN, SYSTEM = 9, 8  # ids of a small made-up vocabulary
# A page of 4 rows takes 40 bytes, a running state 100.
INFO = {"page_tokens": 4, "kv_bytes_per_token": 10, "state_bytes": 100, "prompt_cache": 2, "prompt_cache_root": 6}


def prompt(word, system=3, users=1):
    """system turn, then `users` user turns with assistant turns of 3 tokens between them, then the head."""
    ids = [OPEN, SYSTEM, *[word] * system]
    for n in range(users):
        ids += [OPEN, word, n] + [OPEN, 7]
        if n + 1 < users:
            ids += [5, 5, 5]
    return ids


def request(ids, root, written=(5, 5, 5), steer=""):
    return ledger.Request(ids, root, steer, list(written), len(ids) + len(written))


def books(budget=10_000, slots=4, **changed):
    return ledger.Ledger(ledger.Geometry({**INFO, **changed}, OPEN), budget, slots)


class Books(unittest.TestCase):
    def test_a_first_turn_ends_where_the_next_turn_opens(self):
        self.assertEqual(ledger.first_turn_end([OPEN, 8, 1, OPEN, 1, OPEN, 7], 3, OPEN), 5)
        self.assertEqual(ledger.first_turn_end([OPEN, 1, 1], 0, OPEN), 1)
        self.assertEqual(ledger.first_turn_end([OPEN, 8, 1, OPEN, 1], 3, OPEN), 4)

    def test_a_parked_chat_takes_whole_pages_and_its_images(self):
        # A: 2 + 3 + 3 + 2 = 10 ids, 3 written: 13 rows = 4 pages; images: turn checkpoint (at 8) and tail.
        kept = books()
        kept.step(request(prompt(1), 5))
        out, conv = kept.step(request(prompt(2), 5))
        self.assertEqual((out["parked"], out["bytes"], out["parked_now"]), (1, 4 * 40 + 2 * 100, 1))
        self.assertEqual([each["kind"] for each in conv], ["park"])

    def test_a_restored_chat_keeps_its_full_pages_and_parks_only_new_ones(self):
        kept = books()
        kept.step(request(prompt(1), 5))
        kept.step(request(prompt(2), 5))
        back = prompt(1, users=2)  # 10 + 3 written + 3 + 2 = 18 ids, 21 rows with what is written
        out, _ = kept.step(request(back, 5))
        self.assertEqual((out["switched"], out["restored"], out["reused"], out["source"]), (1, 1, 13, "parked"))
        # Retained: the 3 full pages of 13 rows; parked is B alone.
        self.assertEqual((out["bytes"], out["retained"]), (4 * 40 + 2 * 100 + 3 * 40, 3 * 40))
        out, conv = kept.step(request(prompt(3), 5))
        park = [each for each in conv if each["kind"] == "park"][0]
        self.assertEqual((park["tokens"], park["new_pages"]), (21, 6 - 3))
        # B, and A with 6 pages, two turn checkpoints and the tail.
        self.assertEqual(out["bytes"], (4 * 40 + 2 * 100) + (6 * 40 + 3 * 100))

    def test_a_page_edge_leaves_no_dirty_page(self):
        kept = books()
        kept.step(request(prompt(1), 5, (5, 5)))  # 12 rows: 3 full pages
        kept.step(request(prompt(2), 5))
        out, _ = kept.step(request(prompt(1) + [5, 5, OPEN, 1, 1, OPEN, 7], 5))
        self.assertEqual((out["reused"], out["retained"]), (12, 3 * 40))

    def test_room_for_one_loses_the_outgoing_chat_of_an_exchange(self):
        kept = books(budget=4 * 40 + 3 * 100)
        kept.step(request(prompt(1), 5))
        kept.step(request(prompt(2), 5))
        out, _ = kept.step(request(prompt(1, users=2)[:16] + [OPEN, 7], 5, ()))
        self.assertEqual((out["restored"], out["parked_now"], out["park_skip"], out["lost"]), (1, 0, "budget", 1))
        out, _ = kept.step(request(prompt(2), 5))
        self.assertEqual((out["restored"], out["miss"]), (0, "budget"))

    def test_the_oldest_is_evicted_and_known_to_be(self):
        kept = books(budget=400)
        for word in (1, 2, 3):
            out, _ = kept.step(request(prompt(word), 5))
        self.assertEqual((out["parked"], out["evictions"]), (1, 1))
        out, _ = kept.step(request(prompt(1), 5))
        self.assertEqual((out["miss"], out["evictions"]), ("evicted", 2))

    def test_slots_bound_the_entries(self):
        kept = books(slots=1)
        for word in (1, 2, 3):
            out, _ = kept.step(request(prompt(word), 5))
        self.assertEqual((out["parked"], out["evictions"]), (1, 1))

    def test_a_snapshot_larger_than_the_budget_evicts_nothing(self):
        kept = books(budget=300)
        kept.step(request(prompt(1), 5))
        out, _ = kept.step(request(prompt(2), 5))
        self.assertEqual((out["parked"], out["park_skip"]), (0, "too_large"))

    def test_a_shared_root_is_held_once(self):
        # Root of 10 rows: 2 full pages and one that each chat has for itself; its checkpoint once.
        kept = books()
        kept.step(request(prompt(1, system=8), 10))
        second = prompt(1, system=8)[:10] + [OPEN, 2, 2, OPEN, 7]
        out, _ = kept.step(request(second, 10))
        self.assertEqual((out["source"], out["reused"], out["switched"], out["restored"]), ("root", 10, 1, 0))
        out, _ = kept.step(request(prompt(3), 5))
        own = 3 * 40 + 2 * 100  # 18 rows: 5 pages, of which 2 are shared; turn checkpoint and tail
        self.assertEqual((out["parked"], out["bytes"]), (2, 2 * 40 + 100 + 2 * own))

    def test_the_least_recently_used_checkpoint_goes(self):
        kept = books()
        kept.step(request(prompt(1), 5))
        for users in (2, 3):
            out, _ = kept.step(request(prompt(1, users=users), 5))
        self.assertEqual((out["switched"], out["checkpoints"]), (0, 2))
        self.assertEqual([mark.position for mark in kept.live.marks], [16, 24])

    def test_an_older_turn_does_not_stay_beside_the_newer_one(self):
        kept = books(prompt_cache=6)
        turns = [prompt(1, users=n) for n in (1, 2, 3)]
        for each in turns:
            kept.step(request(each, 5))
        out, _ = kept.step(request(turns[1], 5))
        self.assertEqual((out["switched"], out["source"], out["parked"]), (0, "turn", 1))
        out, _ = kept.step(request(turns[2], 5))
        self.assertEqual((out["restored"], out["superseded"], out["parked"]), (1, 1, 0))

    def test_another_steering_is_a_miss_of_its_own_kind(self):
        kept = books()
        kept.step(request(prompt(1), 5))
        out, _ = kept.step(request(prompt(1), 5, steer="wind"))
        self.assertEqual((out["reused"], out["miss"]), (0, "steering"))

    def test_released_chats_are_read_again(self):
        kept = books()
        kept.step(request(prompt(1), 5))
        kept.step(request(prompt(2), 5))
        self.assertEqual(kept.release_all(), 1)
        out, _ = kept.step(request(prompt(1), 5))
        self.assertEqual((out["miss"], out["released"], out["evictions"]), ("released", 1, 0))

    def test_a_model_without_running_state_resumes_anywhere(self):
        kept = books(state_bytes=0)
        kept.step(request(prompt(1), 5))
        out, _ = kept.step(request(prompt(1)[:9] + [6, 6], 5))
        self.assertEqual((out["reused"], out["switched"], out["source"]), (9, 0, "live"))
        out, _ = kept.step(request(prompt(2), 5))
        self.assertEqual((out["reused"], out["switched"], out["restored"], out["bytes"]), (2, 1, 0, 4 * 40))


class Wire(unittest.TestCase):
    def test_done_is_read_by_position_and_name(self):
        line = ("DONE 128 32109 412.0 1490.7 stop 0 0 32063 0 0 0 0 0 46 1 1 3 3612344320 2 id=17 conv=4 "
                "source=parked miss=none park_ms=41.2 restore_ms=23.9 later=1")
        done = wire.Done(wire.parse(line))
        self.assertEqual((done.reused, done.read, done.cache["bytes"], done.cache["evictions"]), (32063, 46, 3612344320, 2))
        self.assertEqual(done.figures()["source"], "parked")

    def test_an_older_line_has_no_cache_fields(self):
        self.assertIsNone(wire.Done(wire.parse("DONE 1 2 0.0 0.0 stop 0 0 0 0 0 0 0 0 2 id=1")).cache)

    def test_what_is_malformed_is_a_fault(self):
        for line in ("", "HELLO", "DONE 1 2", "T 1 id=1 id=2", "T 1 id=1 2", "T \x01 id=1", "CONV id=1"):
            with self.assertRaises(wire.Fault, msg=line):
                wire.parse(line)
        with self.assertRaises(wire.Fault):
            wire.parse("PONG x").field(1)

    def test_free_text_ends_the_line(self):
        self.assertEqual(wire.parse("ERR busy id=3 text=a lane = 1").get("text"), "a lane = 1")


class Tokens(unittest.TestCase):
    def test_recorded_prompts(self):
        vocabulary = tokens.load(MODEL)
        for each in json.loads(pathlib.Path(REFERENCE).read_text())["prompts"]:
            self.assertEqual(vocabulary.encode_marked(each["text"]), each["prompt_ids"], each["name"])
            self.assertEqual(vocabulary.decode(each["greedy_ids"]), each["greedy_text"], each["name"])

    def test_recorded_texts(self):
        vocabulary = tokens.load(MODEL)
        texts = [each for each in json.loads(pathlib.Path(IDS).read_text()) if each["text"].isascii() and "<" not in each["text"]]
        self.assertGreater(len(texts), 100)
        for each in texts:
            self.assertEqual(vocabulary.encode(each["text"]), each["ids"], each["text"])

    def test_other_files_are_refused(self):
        with self.assertRaises(gguf.BadFile):
            gguf.read_metadata(REFERENCE)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
