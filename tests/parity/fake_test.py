#!/usr/bin/env python3
"""Every scenario passes on a right transcript and fails on each wrong one, with the reason in words.

usage: fake_test.py MODEL
"""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools" / "conversation_cache_parity.py"
FAKE = ROOT / "tests" / "parity" / "fake_engine.py"
RUN_S = 120
AT_ONCE = max(os.cpu_count() or 1, 1)

# (scenario, deviation, what the output must name)
WRONG = (
    ("reuse", "flipped_page", "state_sha256"),
    ("reuse", "skipped_restore", "logits_sha256"),
    ("reuse", "whole_park", "bytes of CONV park"),
    ("reuse", "no_events", "CONV events"),
    ("reuse", "memory", "resident memory"),
    ("reuse", "foreign_answer", "codeword"),
    ("reuse", "other_tokens", "ids: expected"),
    ("reuse", "reused_too_much", "reused"),
    ("reuse", "old_fields", "fields 15-19"),
    ("reuse", "list_wrong", "CACHE list"),
    ("reuse", "end_wrong", "CACHE end"),
    ("reuse", "budget_not_told", "conversation_cache_mib of INFO"),
    ("reuse", "leaves_badly", "exit status"),
    ("exchange", "parks_too_much", "park_skip"),
    ("exchange", "lost_uncounted", "lost"),
    ("pressure", "forced_hit", "restored"),
    ("pressure", "eviction_uncounted", "evictions"),
    ("oversized", "too_large_as_budget", "park_skip"),
    ("admission", "floor_ignored", "park_skip"),
    ("root", "double_count", "bytes"),
    ("flood", "other_evicted", "parked"),
    ("supersede", "superseded_stays", "superseded"),
    ("steering", "steering_ignored", "reused"),
    ("identity", "re_read_differs", "logits_sha256"),
    ("release", "pin_ignored", "parked of the release line"),
    ("release", "pressure_unheard", "a release line of the known form"),
    ("release", "line_of_old", "a release line of the known form"),
)
RIGHT = ("reuse", "exchange", "pressure", "oversized", "admission", "root", "flood", "supersede", "steering", "identity",
         "release")


def start(scenario, wrong, model):
    environment = {**os.environ, "PARITY_FAKE_WRONG": wrong}
    return subprocess.Popen([sys.executable, SCRIPT, "--engine", FAKE, "--model", model, "--scenario", scenario],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def verdict(scenario, wrong, named, process):
    """-> what is wrong with this run, or None."""
    try:
        output = process.communicate(timeout=RUN_S)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return f"{scenario} {wrong}: no end within {RUN_S} s"
    wanted = 1 if wrong else 0
    if process.returncode != wanted:
        return f"{scenario} {wrong}: status {process.returncode}, wanted {wanted}\n{output}"
    told = [line for line in output.split("\n") if "expected" in line or "does not hold" in line]
    if wrong and not any(named in line for line in told):
        return f"{scenario} {wrong}: the output does not name {named!r}\n{output}"
    return None


def main():
    runs = [(scenario, "", "") for scenario in RIGHT] + list(WRONG)
    found = []
    for at in range(0, len(runs), AT_ONCE):
        started = [(run, start(run[0], run[1], sys.argv[1])) for run in runs[at:at + AT_ONCE]]
        found += [problem for run, process in started if (problem := verdict(*run, process))]
    print("\n".join(found))
    print(f"{len(RIGHT)} right and {len(WRONG)} wrong transcripts, {len(found)} judged wrongly")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
