#!/usr/bin/env python3
"""Chat templates of released models, rendered by Jinja and by serve_text_render: the same bytes, or an error in both.

    real_templates_test.py PATH_TO_serve_text_render FOLDER

FOLDER is what vocab_install.py filled; exit status 77 (SKIP) when it has no templates or this interpreter no jinja2.
"""

import collections
import json
import pathlib
import subprocess
import sys
import warnings

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "fixtures/text/jinja"
sys.path.insert(0, str(FIXTURES))

TEMPLATES_MIN = 50
CONVERSATIONS_MIN = 8
FULL_MIN = 5  # templates that render so many conversations, the rest refuses some of them
FILE_TEXTS = {"bos_token": "<s>", "eos_token": "</s>"}


def skip(reason):
    print(f"SKIP: {reason}")
    raise SystemExit(77)


def rows_of(folder):
    templates = json.loads((folder / "templates.json").read_text(encoding="utf-8"))
    conversations = json.loads((FIXTURES / "conversations.json").read_text(encoding="utf-8"))
    if len(templates) < TEMPLATES_MIN or len(conversations) < CONVERSATIONS_MIN:
        raise SystemExit(f"{len(templates)} templates and {len(conversations)} conversations are too few")
    return [{"of": t["name"], "name": f"{t['name']}: {c['name']}", "template": t["template"], "context": {**FILE_TEXTS, **c["context"]}}
            for t in templates for c in conversations]


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    try:
        import oracle
    except ImportError:
        skip("this interpreter has no jinja2")
    if not (folder / "templates.json").exists():
        skip("no templates were fetched")
    warnings.simplefilter("ignore")
    rows = rows_of(folder)
    out = subprocess.run([program], input=json.dumps(rows), capture_output=True, text=True, timeout=100, check=True).stdout
    outputs, bad = collections.Counter(), 0
    for row, got in zip(rows, json.loads(out)):
        wanted = oracle.render(row["template"], json.loads(json.dumps(row["context"])))
        outputs[row["of"]] += "out" in wanted
        if wanted == got or ("error" in wanted and "error" in got):
            continue
        bad += 1
        print(f"{row['name']}\n  jinja2: {wanted}\n  ours:   {got}")
    full = sum(count >= CONVERSATIONS_MIN for count in outputs.values())
    print(f"{len(rows)} renderings, {outputs.total()} with an output, {bad} differ; {full} templates render "
          f"at least {CONVERSATIONS_MIN} conversations")
    raise SystemExit(1 if bad or full < FULL_MIN else 0)


if __name__ == "__main__":
    main()
