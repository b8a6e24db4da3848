#!/usr/bin/env python3
"""Stands between strata-serve and its engine and writes down what the engine says.

usage: tap.py ENGINE LOG [engine options]

The engine keeps the server's stdin; its lines go to the server unchanged and into LOG. Chunks get a
fixed size, so that two runs read a prompt alike.
"""
import os
import subprocess
import sys


def main():
    program, log, options = sys.argv[1], sys.argv[2], sys.argv[3:]
    if "--parent-pid" in options:
        options[options.index("--parent-pid") + 1] = str(os.getpid())
    engine = subprocess.Popen([program, *options, "--chunk-ms", "0"], stdout=subprocess.PIPE)
    with open(log, "ab", buffering=0) as copy:
        for line in engine.stdout:
            copy.write(line)
            try:
                os.write(1, line)
            except BrokenPipeError:
                break
    sys.exit(engine.wait())


if __name__ == "__main__":
    main()
