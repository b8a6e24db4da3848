#!/usr/bin/env python3
"""A real limit: an engine inside a memory cgroup reads that limit as its available RAM, gives parked
conversations back when the limit comes down, and parks nothing below the floor.

usage: limit_run.py ENGINE MODEL
Two controls: the same engine outside the cgroup reads more and keeps everything, and a process that takes
more than the limit inside the cgroup is killed, so the limit is in effect.
Exit status: 0 as specified, 1 not, 2 it cannot be played: this machine lets us make no memory cgroup, or
has too little memory outside one to tell the difference.
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
MIB = 1 << 20
LIMIT_MIB, FLOOR_MIB = 512, 256
BELOW_MIB = 64  # how far under the floor the lowered limit leaves
LINE_S, LATE_S = 4.0, 30.0  # within which a line comes, and comes on a loaded machine
FLAGS = ["--conversation-cache-mib", "64", "--conversation-cache-min-free-mib", str(FLOOR_MIB), "--threads", "1"]


class Wrong(Exception):
    """What was expected and what came."""


def expect(what, wanted, good, came):
    print(f"  {'ok   ' if good else 'WRONG'} {what}: expected {wanted}, came {came}", flush=True)
    if not good:
        raise Wrong()


def own_cgroup():
    """-> (directory of this process's memory cgroup, its limit file, its usage file), or None."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        number, kinds, path = line.split(":", 2)
        if "memory" in kinds.split(","):
            return pathlib.Path("/sys/fs/cgroup/memory" + path), "memory.limit_in_bytes", "memory.usage_in_bytes"
        if number == "0" and (pathlib.Path("/sys/fs/cgroup" + path) / "cgroup.controllers").exists():
            return pathlib.Path("/sys/fs/cgroup" + path), "memory.max", "memory.current"
    return None


class Cgroup:
    """A memory cgroup below our own, with a limit; gone at the end."""

    def __init__(self):
        place = own_cgroup()
        if place is None:
            raise OSError("this process is in no memory cgroup")
        parent, self.limit_file, self.usage_file = place
        self.directory = parent / f"strata-limit-{os.getpid()}"
        self.directory.mkdir()
        try:
            self.set_limit_mib(LIMIT_MIB)
        except OSError:
            self.directory.rmdir()
            raise

    def set_limit_mib(self, mib):
        (self.directory / self.limit_file).write_text(str(mib * MIB))

    def usage_mib(self):
        return int((self.directory / self.usage_file).read_text()) // MIB

    def wrapper(self, folder, program):
        """A program that enters the cgroup and becomes `program`."""
        path = pathlib.Path(folder) / "inside"
        path.write_text(f'#!/bin/sh\necho $$ > "{self.directory}/cgroup.procs"\nexec "{program}" "$@"\n')
        path.chmod(0o755)
        return str(path)

    def remove(self):
        deadline = time.monotonic() + LATE_S
        while True:
            try:
                return self.directory.rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


def ask_three(process):
    random_ = random.Random("limit")
    prompts = [[n] + [random_.randrange(256) for _ in range(400)] for n in range(3)]
    done = [process.ask(ids, 0, 4, ignore_eos=1).done for ids in prompts][-1]
    return {**done.figures(), "available_mib": done.event.number("available_mib")}


def check_inside(program, model, cgroup, folder, environment):
    with engine.Engine(cgroup.wrapper(folder, program), model, FLAGS, environment) as process:
        figures = ask_three(process)
        expect("available RAM inside, MiB", f"{FLOOR_MIB} to {LIMIT_MIB}",
               FLOOR_MIB <= figures["available_mib"] <= LIMIT_MIB, figures["available_mib"])
        expect("parked inside", 2, figures["parked"] == 2, figures["parked"])
        expect("release lines before", 0, not event_lines(process), event_lines(process))
        since = time.monotonic()
        cgroup.set_limit_mib(cgroup.usage_mib() + FLOOR_MIB - BELOW_MIB)
        found = wait_for_event(process, since, LATE_S)
        expect("a release line after the limit came down", "one of the known form", bool(found and found[1]), found)
        last = ask_three(process)
        expect("parked below the floor", 0, last["parked"] == 0, last["parked"])
        expect("why it is not parked", "floor", last.get("park_skip") == "floor", last.get("park_skip"))
        expect("exit status inside", 0, process.close() == 0, process.process.returncode)


def check_outside(program, model, environment):
    with engine.Engine(program, model, FLAGS, environment) as process:
        figures = ask_three(process)
        if figures["available_mib"] <= LIMIT_MIB:
            print(f"SKIP: {figures['available_mib']} MiB are available outside, too few to tell the limit")
            return NOT_PLAYED
        expect("parked outside", 2, figures["parked"] == 2, figures["parked"])
        time.sleep(LINE_S)
        expect("release lines outside", 0, not event_lines(process), event_lines(process))
    return 0


def check_limit_is_real(cgroup, folder):
    cgroup.set_limit_mib(LIMIT_MIB)
    taker = f"import sys; taken = b'1' * ({LIMIT_MIB + 128} << 20); sys.exit(0)"
    ended = subprocess.run([cgroup.wrapper(folder, sys.executable), "-c", taker], timeout=60, check=False,
                           stderr=subprocess.DEVNULL).returncode
    expect("who takes more than the limit", "is killed", ended != 0, ended)


def main():
    program, model = sys.argv[1:]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("STRATA_")}
    environment["STRATA_CONV_PRESSURE_HYST_MIB"] = "0"
    try:
        cgroup = Cgroup()
    except OSError as fault:
        print(f"SKIP: no memory cgroup can be made here: {fault}")
        return NOT_PLAYED
    try:
        with tempfile.TemporaryDirectory(prefix="strata-limit-") as folder:
            check_limit_is_real(cgroup, folder)
            status = check_outside(program, model, environment)
            if status == 0:
                check_inside(program, model, cgroup, folder, environment)
            return status
    except Wrong:
        return 1
    except engine.EngineDied as fault:
        print(f"  WRONG: {fault}")
        return 1
    finally:
        cgroup.remove()


if __name__ == "__main__":
    sys.exit(main())
