#!/usr/bin/env python3
"""Every flag that a program's --help shows stands in DETAILS.md, and every flag of DETAILS.md in a --help.

usage: flags_test.py BIN_DIR
"""

import pathlib
import re
import subprocess
import sys

import tree

PROGRAMS = ("strata-serve", "strata-engine")
ASKING = {"--help", "--version", "--show-config"}  # end without serving; named in the text


def help_of(folder, program):
    result = subprocess.run([pathlib.Path(folder) / program, "--help"], capture_output=True, text=True,
                            timeout=30, check=True)
    return result.stdout


def flags_in(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text))


def findings(folder):
    section = tree.text("DETAILS.md").split("## Every flag")[1].split("\n## ")[0]
    parts = dict(zip(PROGRAMS, section.split("### strata-engine")))
    found = []
    for program in PROGRAMS:
        shown = help_of(folder, program)
        listed = set(re.findall(r"^ +(--[a-z][a-z0-9-]*)", shown, flags=re.M))
        written = flags_in(parts[program])
        found += [f"{flag} of {program} is not in DETAILS.md" for flag in sorted(listed - written)]
        found += [f"{flag} of DETAILS.md is no flag of {program}" for flag in sorted(written - listed - ASKING)]
        found += [f"{program} --help: {len(line)} columns: {line}" for line in shown.split("\n") if len(line) > 80]
    return found + named_findings(flags_in(section))


def named_findings(known):
    """A flag that a message names must exist: people copy it from there."""
    found = []
    for path in tree.with_suffix((".cpp",), "engine/", "serve/"):
        for literal in re.findall(r'"(?:[^"\\\n]|\\.)*"', tree.text(path)):
            found += [f"{path}: names {flag}, which is no flag" for flag in flags_in(literal) - known]
    return found


if __name__ == "__main__":
    tree.report("flags", findings(sys.argv[1]))
