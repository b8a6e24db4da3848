#!/usr/bin/env python3
"""tools/ballast takes what it is asked for, at its rate, holds it, and gives it back.

usage: ballast_test.py
"""
import pathlib
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from parity.engine import resident_kib  # noqa: E402

MIB, RATE_MIB_S = 96, 64
OWN_MIB_MAX = 32  # of the interpreter
WAIT_S = 30
ROUNDS = 3  # a loaded machine may hear of the beginning late once, not each time


class Ballast(unittest.TestCase):
    def start(self, *options):
        process = subprocess.Popen([sys.executable, ROOT / "tools" / "ballast", *map(str, options)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        process.kill()
        process.wait(WAIT_S)
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()

    def hold(self):
        """Holds until stdin ends. -> seconds that the taking took"""
        process = self.start("--mib", MIB, "--rate-mib-s", RATE_MIB_S)
        self.assertEqual(process.stdout.readline(), "taking\n")
        began = time.monotonic()
        self.assertTrue(process.stdout.readline().startswith(f"holding {MIB} MiB"))
        took = time.monotonic() - began
        held = resident_kib(process.pid) / 1024
        self.assertTrue(MIB <= held <= MIB + OWN_MIB_MAX, held)
        process.stdin.close()
        self.assertEqual(process.stdout.readline(), "gone\n")
        self.assertEqual(process.wait(WAIT_S), 0)
        return took

    def test_it_holds_at_the_set_rate_until_stdin_ends(self):
        # The last step of 16 MiB begins when the ones before it are due.
        wanted, took = (MIB - 16) / RATE_MIB_S * 0.9, 0
        for _ in range(ROUNDS):
            if took < wanted:
                took = self.hold()
        self.assertGreaterEqual(took, wanted)

    def test_it_ends_after_its_time(self):
        process = self.start("--mib", 16, "--hold-s", 0.3)
        began = time.monotonic()
        self.assertEqual(process.wait(WAIT_S), 0)
        self.assertGreaterEqual(time.monotonic() - began, 0.3)

    def test_it_stops_at_what_is_to_stay_available(self):
        process = self.start("--until-available-mib", 1 << 40)
        self.assertEqual(process.stdout.readline(), "taking\n")
        self.assertTrue(process.stdout.readline().startswith("holding 0 MiB"))

    def test_a_bad_option_is_status_2(self):
        for options in ((), ("--mib", "x"), ("--mib", 1, "--until-available-mib", 1)):
            self.assertEqual(self.start(*options).wait(WAIT_S), 2, options)


if __name__ == "__main__":
    unittest.main()
