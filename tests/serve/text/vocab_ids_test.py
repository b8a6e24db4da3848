#!/usr/bin/env python3
"""The committed ids of one real vocabulary against those of serve_text_tokens.

    vocab_ids_test.py PATH_TO_serve_text_tokens FOLDER NAME

FOLDER is what vocab_install.py filled; exit status 77 (SKIP) when it has no such vocabulary. Each string is encoded
with its control tokens parsed and as a message, whose ids must hold none of them; both decode to the string.
"""

import json
import pathlib
import subprocess
import sys

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "fixtures/text/vocab"
STRINGS_MIN = 300


def main():
    program, folder, name = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    vocabulary = folder / f"{name}.gguf"
    if not vocabulary.exists():
        print(f"SKIP: {vocabulary.name} was not fetched")
        raise SystemExit(77)
    rows = json.loads((FIXTURES / f"{name}_ids.json").read_text(encoding="utf-8"))
    asked = [{"text": row["text"], "special": special} for row in rows for special in (True, False)]
    run = subprocess.run([program, str(vocabulary)], input=json.dumps(asked), capture_output=True, text=True, timeout=100)
    if run.returncode != 0:
        raise SystemExit(f"{name}: {run.stderr}")
    answers = json.loads(run.stdout)
    bad = sum(report(rows[i // 2], asked[i], answer) for i, answer in enumerate(answers))
    print(f"{name}: {len(rows)} strings, twice each, {bad} differ")
    raise SystemExit(1 if bad or len(rows) < STRINGS_MIN or len(answers) != len(asked) else 0)


def report(row, question, answer):
    """-> 1 when an answer is not what it must be."""
    wanted = row["ids"] if question["special"] else row.get("plain", row["ids"])
    if answer["ids"] == wanted and answer["decoded"] and (question["special"] or not answer["specials"]):
        return 0
    print(f"{question!r}\n  wanted {wanted}\n  got    {answer}")
    return 1


if __name__ == "__main__":
    main()
