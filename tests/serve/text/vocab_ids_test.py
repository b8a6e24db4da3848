#!/usr/bin/env python3
"""The ids of one real vocabulary: serve_text_tokens against another tokenizer.

    vocab_ids_test.py PATH_TO_serve_text_tokens FOLDER NAME [SEED [COUNT]]

FOLDER is what vocab_install.py filled; exit status 77 (SKIP) when it has no such vocabulary. The committed strings
are encoded with their control tokens parsed and as a message, whose ids must hold none of them; both decode to the
string. Then COUNT random strings, for which the other tokenizer is asked on the spot.
"""

import json
import pathlib
import subprocess
import sys

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "fixtures/text"
STRINGS_MIN = 300


def answers_of(program, vocabulary, questions):
    run = subprocess.run([program, str(vocabulary)], input=json.dumps(questions), capture_output=True, text=True, timeout=100)
    if run.returncode != 0:
        raise SystemExit(f"{vocabulary.name}: {run.stderr}")
    answers = json.loads(run.stdout)
    if len(answers) != len(questions):
        raise SystemExit(f"{vocabulary.name}: {len(answers)} answers to {len(questions)} questions")
    return answers


def differs(question, wanted, answer):
    if answer["ids"] == wanted and answer["decoded"] and (question["special"] or not answer["specials"]):
        return False
    print(f"{question!r}\n  wanted {wanted}\n  got    {answer}")
    return True


def compare(program, vocabulary, rows):
    """rows: (text, whether control tokens are parsed, ids) -> how many differ."""
    questions = [{"text": text, "special": special} for text, special, _ in rows]
    answers = answers_of(program, vocabulary, questions)
    return sum(differs(q, row[2], answer) for q, row, answer in zip(questions, rows, answers))


def committed(name):
    rows = json.loads((FIXTURES / f"vocab/{name}_ids.json").read_text(encoding="utf-8"))
    if len(rows) < STRINGS_MIN:
        raise SystemExit(f"{name}: {len(rows)} strings are too few")
    return [(r["text"], special, r["ids"] if special else r.get("plain", r["ids"])) for r in rows for special in (True, False)]


def random_rows(folder, name, seed, count):
    command = ["node", str(FIXTURES / "random_ids.mjs"), str(folder), name, seed, count]
    out = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True).stdout
    return [(row["text"], True, row["ids"]) for row in json.loads(out)]


def main():
    program, folder, name = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), sys.argv[3]
    vocabulary = folder / f"{name}.gguf"
    if not vocabulary.exists():
        print(f"SKIP: {vocabulary.name} was not fetched")
        raise SystemExit(77)
    seed = sys.argv[4] if len(sys.argv) > 4 else "1"
    count = sys.argv[5] if len(sys.argv) > 5 else "1000"
    fixed, random = committed(name), random_rows(folder, name, seed, count)
    bad = compare(program, vocabulary, fixed) + compare(program, vocabulary, random)
    print(f"{name}: {len(fixed) // 2} strings twice, {len(random)} random ones, {bad} differ")
    raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
    main()
