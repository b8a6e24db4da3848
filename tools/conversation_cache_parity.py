#!/usr/bin/env python3
"""Plays scenarios on private engines with the conversation cache and without it, and compares.

usage: conversation_cache_parity.py --engine FILE --model FILE [--scenario NAME|all] [--cache-mib N]
                                    [--server FILE] [--threads N] [--kv TYPE]

A baseline with budget 0 and a candidate with the cache answer the same prompts, greedily. Every step
compares what DONE says about the cache (fields 8 and 15-19 and the named ones), the token ids, the
logits and the whole state; at the end the list of parked conversations and the peak of resident
memory. The figures come from the specification's own formulas over what INFO says, never from the
engine under test.

Exit status: 0 everything is equal, 1 something differs (what was expected and what came is printed),
2 a scenario cannot be played (a bad option, the model, an engine without the cache).
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from parity import engine, identity, release, scenarios, thinking, wire, world  # noqa: E402

SCENARIOS = {
    "reuse": scenarios.reuse, "exchange": scenarios.exchange, "pressure": scenarios.pressure,
    "oversized": scenarios.oversized, "admission": scenarios.admission, "root": scenarios.root,
    "flood": scenarios.flood, "supersede": scenarios.supersede, "thinking": thinking.thinking,
    "steering": scenarios.steering, "identity": identity.identity, "release": release.release,
}
EQUAL, DIFFERENT, NOT_PLAYED = 0, 1, 2


def play(name, settings, out):
    """-> exit status of one scenario."""
    place = world.World(settings, name, out)
    try:
        SCENARIOS[name](place)
        place.say("passed")
        return EQUAL
    except world.Mismatch:
        place.say("FAILED")
        return DIFFERENT
    except (engine.EngineDied, wire.Fault) as fault:
        unusable = getattr(fault, "unusable", False)
        place.say(f"{'cannot be played' if unusable else 'FAILED'}: {fault}")
        return NOT_PLAYED if unusable else DIFFERENT
    except world.Unusable as fault:
        place.say(f"cannot be played: {fault}")
        return NOT_PLAYED
    finally:
        place.close()


def arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--engine", required=True, help="strata-engine")
    parser.add_argument("--model", required=True, help="a GGUF file with a byte-level BPE vocabulary and chat turns")
    parser.add_argument("--scenario", default="all", choices=["all", *SCENARIOS])
    parser.add_argument("--cache-mib", type=int, default=256,
                        help="budget where the scenario does not need a particular one")
    parser.add_argument("--server", help="strata-serve, for thinking; default: beside the engine")
    parser.add_argument("--threads", type=int, help="passed on to the engine")
    parser.add_argument("--kv", help="passed on to the engine")
    return parser.parse_args(argv)


def main(argv):
    options = arguments(argv)
    beside = os.path.join(os.path.dirname(options.engine), "strata-serve")
    server = options.server or (beside if os.path.isfile(beside) else None)
    try:
        settings = world.Settings(options.engine, options.model, options.cache_mib, options.threads, server,
                                  options.kv)
    except world.Unusable as fault:
        print(fault, file=sys.stderr)
        return NOT_PLAYED
    names = list(SCENARIOS) if options.scenario == "all" else [options.scenario]
    results = {name: play(name, settings, sys.stdout) for name in names}
    words = {EQUAL: "passed", DIFFERENT: "FAILED", NOT_PLAYED: "not played"}
    print("  ".join(f"{name}: {words[status]}" for name, status in results.items()))
    return next((status for status in (DIFFERENT, NOT_PLAYED) if status in results.values()), EQUAL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
