#!/usr/bin/env python3
"""Real pressure on real memory: three large parked conversations, a ballast that takes the machine's free
memory below the floor, and what the engine gives back to the system, when and how often.

usage: pressure_run.py ENGINE
Exit status: 0 as specified, 1 not, 2 it cannot be played: no conversation cache, a machine that is too
small, or whose free memory moves by itself.
"""
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from parity import engine  # noqa: E402
from parity.release import event_lines, wait_for_event  # noqa: E402

NOT_PLAYED = 2
TOKENS, PAGES, PAGE_MIB = 2500, 10, 16
SCRATCH_MIB = 48  # that a forward pass keeps, beside what lies in pages
WRITTEN = 4
KV_BYTES = 64 << 10
PARKED_BYTES_MIN, RELEASED_MIB_MIN = 150 << 20, 128
HYST_MIB, BUDGET_MIB = 64, 1024
HEADROOM_MIB = 1500  # between free memory and floor before the ballast: what else runs may take some
ENGINE_MIB = 1000  # four conversations, one of them on the device, and the engine
OVERSHOOT_MIB = 80  # below the floor: less than one conversation, so that one release is enough
STRAY_MIB = 48  # how far the machine's free memory may move by itself
QUIET_S, LINE_S, LATE_S, FALL_S, HOLD_S, AFTER_S = 6.0, 2.0, 20.0, 1.0, 4.0, 4.0
FALL_SHARE = 0.9
RATE_MIB_S = 4000
ATTEMPTS = 3


class Wrong(Exception):
    """What was expected and what came."""


class Stray(Exception):
    """Free memory moved by itself: nothing can be said. (Kernels from 6.7 on keep what was freed in lists of
    each processor that MemAvailable does not count, hundreds of MiB of them on a busy machine.)"""


class Late(Exception):
    """The line came, and late: once that may be a loaded machine, not each time."""


def expect(what, wanted, good, came):
    print(f"  {'ok   ' if good else 'WRONG'} {what}: expected {wanted}, came {came}", flush=True)
    if not good:
        raise Wrong()


def available_mib():
    with open("/proc/meminfo") as meminfo:
        return next(int(line.split()[1]) // 1024 for line in meminfo if line.startswith("MemAvailable:"))


def prompts():
    """Four conversations that share nothing, not even their first token."""
    random_ = random.Random("pressure")
    return [[n] + [random_.randrange(256) for _ in range(TOKENS + 10 * n)] for n in range(4)]


def ask(process, ids):
    return process.ask(ids, 0, WRITTEN, ignore_eos=1)


def park_three(process):
    """-> (prompts, replies): three parked conversations and a live one."""
    asked = prompts()
    at_rest = engine.resident_kib(process.process.pid) // 1024
    replies = [ask(process, ids) for ids in asked]
    figures = replies[-1].done.figures()
    expect("parked conversations", 3, figures["parked"] == 3, figures["parked"])
    for row in process.cache_list()[0]:
        size = row.number("bytes")
        expect("bytes of a parked conversation", f"at least {PARKED_BYTES_MIN}", size >= PARKED_BYTES_MIN, size)
    # Three copies in host memory and the live one on the device, and nothing of those that have left it.
    held = engine.resident_kib(process.process.pid) // 1024 - at_rest
    most = 4 * PAGES * PAGE_MIB + SCRATCH_MIB
    expect("growth of resident memory in MiB", f"at most {most}", held <= most, held)
    return asked, replies


def resident_mib(process, since, until):
    return [kib / 1024 for at, kib in list(process.memory) if since <= at <= until and kib]


class Weight:
    """tools/ballast as a child; it ends when its stdin does."""

    def __init__(self, mib):
        self.process = subprocess.Popen([sys.executable, ROOT / "tools" / "ballast", "--mib", str(mib),
                                         "--rate-mib-s", str(RATE_MIB_S)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.taking = time.monotonic()
        while "holding" not in (line := self.process.stdout.readline()):
            if not line:
                raise Wrong()
        self.holding = time.monotonic()

    def give_back(self):
        self.process.stdin.close()
        self.process.wait(30)


def check_line(process, weight, floor):
    """The release line, in time and in form. -> (its time, its figures)."""
    found = wait_for_event(process, weight.taking, LATE_S)
    if not found and available_mib() >= floor:
        raise Stray("the ballast is no load: something else gave memory back")
    expect("a release line of the known form", "one", bool(found and found[1]), found)
    at, match = found
    figures = {name: int(value) for name, value in match.groupdict().items() if name != "where"}
    moved = int(match.group("before")) + int(match.group("mib")) - int(match.group("after"))
    if abs(moved) > OVERSHOOT_MIB + STRAY_MIB:
        raise Stray(f"{moved} MiB came or went during: {match.group(0)}")
    if figures["dialogs"] == 0 and int(match.group("after")) >= floor + HYST_MIB:
        raise Stray(f"enough came back before anything was released: {match.group(0)}")
    if at - weight.holding > LINE_S:
        raise Late(f"{at - weight.holding:.2f} s from the ballast to the line: expected at most {LINE_S}")
    expect("released MiB", f"at least {RELEASED_MIB_MIN}", figures["mib"] >= RELEASED_MIB_MIN, figures["mib"])
    expect("floor, hysteresis and place", (floor, HYST_MIB, "idle"),
           (figures["floor"], figures["more"], match.group("where")) == (floor, HYST_MIB, "idle"), match.group(0))
    expect("free memory before the release", f"below {floor} MiB", figures["before"] < floor, figures["before"])
    left = 3 - figures["dialogs"]
    expect("parked afterwards, the newest at least", max(left, 1), figures["parked"] == left >= 1, figures["parked"])
    return at, figures


def check_resident(process, weight, at, stated_mib):
    """Resident memory, sampled 20 times a second, falls by what the line says."""
    time.sleep(max(at + FALL_S - time.monotonic(), 0))
    before = max(resident_mib(process, weight.taking - 1, at))
    after = min(resident_mib(process, at - 0.2, at + FALL_S))
    expect("fall of resident memory in MiB", f"at least {FALL_SHARE} of {stated_mib}",
           before - after >= FALL_SHARE * stated_mib, round(before - after))


def check_follow_ups(process, asked, replies, released):
    """The newest comes back from its snapshot, the oldest is read again and says why."""
    def follow(n):
        return ask(process, asked[n] + replies[n].ids + [7, 7, 7]).done.figures()
    newest = follow(2)
    expect("the newest parked conversation", "restored", newest["restored"] == 1, newest.get("source"))
    oldest = follow(0)
    expect("the oldest parked conversation", "a miss: released", oldest.get("miss") == "released", oldest.get("miss"))
    expect("released in all", released, oldest.get("released") == released, oldest.get("released"))


def press(process, floor):
    asked, replies = park_three(process)
    began, readings = time.monotonic(), []
    while time.monotonic() < began + QUIET_S:
        readings.append(available_mib())
        time.sleep(0.1)
    if max(readings) - min(readings) > STRAY_MIB:
        raise Stray(f"{max(readings) - min(readings)} MiB within {QUIET_S} s of rest")
    expect("release lines before the ballast", 0, not event_lines(process), event_lines(process))
    start = available_mib()
    weight = Weight(start - (floor - OVERSHOOT_MIB))
    try:
        at, figures = check_line(process, weight, floor)
        check_resident(process, weight, at, figures["mib"])
        time.sleep(HOLD_S)
        strayed = abs(available_mib() - (floor - OVERSHOOT_MIB + figures["mib"]))
        lines = event_lines(process, began)
        if strayed > STRAY_MIB and len(lines) > 1:
            raise Stray(f"{strayed} MiB came or went while the ballast stayed")
        expect("release lines while the ballast stays", 1, len(lines) == 1, len(lines))
    finally:
        weight.give_back()
    time.sleep(AFTER_S)
    lines = event_lines(process, began)
    expect("release lines after the ballast went", 1, len(lines) == 1, len(lines))
    check_follow_ups(process, asked, replies, figures["dialogs"])


def attempt(program, model):
    floor = available_mib() - ENGINE_MIB - HEADROOM_MIB
    if floor < 512:
        print(f"SKIP: {available_mib()} MiB of free memory are too few")
        return NOT_PLAYED
    flags = ["--kv", "f32", "--conversation-cache-mib", str(BUDGET_MIB), "--conversation-cache-min-free-mib", str(floor)]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("STRATA_")}
    with engine.Engine(program, model, flags, {**clean, "STRATA_CONV_PRESSURE_HYST_MIB": str(HYST_MIB)}) as process:
        size = int(process.info["kv_bytes_per_token"])
        expect("bytes of K/V a token", KV_BYTES, size == KV_BYTES, size)
        press(process, floor)
        expect("exit status", 0, process.close() == 0, process.process.returncode)
    return 0


def main():
    with tempfile.TemporaryDirectory(prefix="strata-pressure-") as folder:
        model = os.path.join(folder, "wide_kv.gguf")
        maker = ROOT / "tests" / "fixtures" / "wide_kv" / "make_wide_kv.py"
        subprocess.run([sys.executable, maker, model], check=True, timeout=300)
        for number in range(ATTEMPTS):
            try:
                return attempt(sys.argv[1], model)
            except Late as late:
                print(f"attempt {number + 1} of {ATTEMPTS}: {late}", flush=True)
                if number + 1 == ATTEMPTS:
                    return 1
            except Stray as stray:
                print(f"free memory moved by itself (attempt {number + 1} of {ATTEMPTS}): {stray}", flush=True)
            except Wrong:
                return 1
            except engine.EngineDied as fault:
                print(f"  {'SKIP' if fault.unusable else 'WRONG'}: {fault}")
                return NOT_PLAYED if fault.unusable else 1
    print("SKIP: something else on this machine takes and gives memory all the time")
    return NOT_PLAYED


if __name__ == "__main__":
    sys.exit(main())
