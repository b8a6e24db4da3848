#!/usr/bin/env python3
"""Fetches the pinned packages with real vocabularies and templates and converts what the tests of label vocab read.

    vocab_install.py FOLDER

FOLDER gets node_modules, NAME.gguf for each row of vocabularies.json, and templates.json. Exit status 77 (SKIP)
where no registry answers; what was fetched before is used without asking one.
"""

import json
import pathlib
import shutil
import subprocess
import sys

TREE = pathlib.Path(__file__).resolve().parents[3]
FIXTURES = TREE / "tests/fixtures/text/vocab"
sys.path.insert(0, str(FIXTURES))
import to_gguf  # noqa: E402

OFFLINE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH", "ERR_SOCKET_TIMEOUT")
INSTALL_SECONDS_MAX = 500


def skip(reason):
    print(f"SKIP: {reason}")
    raise SystemExit(77)


def fetch(folder):
    lock = FIXTURES / "package-lock.json"
    done = folder / "node_modules/.package-lock.json"
    copy = folder / "package-lock.json"
    if done.exists() and copy.exists() and copy.read_bytes() == lock.read_bytes():
        return
    if shutil.which("npm") is None:
        skip("there is no npm")
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(FIXTURES / name, folder / name)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    try:
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        skip(f"npm did not end within {INSTALL_SECONDS_MAX} s")
    if run.returncode == 0:
        return
    copy.unlink()
    if any(word in run.stderr for word in OFFLINE):
        skip("no package registry can be reached")
    print(run.stderr)
    raise SystemExit(1)


def convert(folder):
    for row in json.loads((FIXTURES / "vocabularies.json").read_text(encoding="utf-8")):
        source = folder / "node_modules" / row["path"]
        target = folder / f"{row['name']}.gguf"
        if target.exists() and target.stat().st_mtime > max(p.stat().st_mtime for p in (source, FIXTURES / "to_gguf.py")):
            continue
        half = target.with_suffix(".half")
        to_gguf.convert(source, half, row["model"], row.get("pre"))
        half.rename(target)
        print(f"{target.name}: {target.stat().st_size} bytes")


# The mapping is TypeScript: a list of object literals behind one assignment.
READ_MAPPING = """
const text = require('node:fs').readFileSync(process.argv[1], 'utf8');
const list = eval('(' + text.slice(text.indexOf('= [') + 2).trim().replace(/;$/, '') + ')');
console.log(JSON.stringify(list.map((row) => ({name: row.model, template: row.gguf}))));
"""


def collect_templates(folder):
    mapping = folder / "node_modules/@huggingface/ollama-utils/src/chat-template-automap.ts"
    run = subprocess.run(["node", "-e", READ_MAPPING, str(mapping)], capture_output=True, text=True, timeout=60, check=True)
    rows = json.loads(run.stdout)
    for config in sorted((folder / "node_modules/@lenml").glob("*/models/tokenizer_config.json")):
        template = json.loads(config.read_text(encoding="utf-8")).get("chat_template")
        if template:
            rows.append({"name": config.parent.parent.name, "template": template})
    (folder / "templates.json").write_text(json.dumps(rows), encoding="utf-8")
    print(f"{len(rows)} chat templates")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fetch(folder)
    convert(folder)
    collect_templates(folder)


if __name__ == "__main__":
    main()
