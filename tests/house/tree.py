"""The tree as the house tests see it: the files that git tracks or would track, and their text."""

import functools
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE = (".cpp", ".hpp", ".cu", ".cuh", ".h", ".inc")
SCRIPTS = (".py", ".js", ".mjs", ".sh")


@functools.lru_cache
def files():
    """Paths relative to the root, sorted."""
    out = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout
    return sorted(p for p in set(out.split("\n")) if p and (ROOT / p).is_file())


@functools.lru_cache
def text(path):
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")


def with_suffix(suffixes, *rooms):
    return [p for p in files() if p.endswith(suffixes) and (not rooms or p.startswith(rooms))]


def strip_code(source):
    """C++ or JavaScript with comments and the contents of literals blanked; lines stay lines."""
    out, i, n = [], 0, len(source)
    while i < n:
        two = source[i : i + 2]
        if two == "//":
            j = source.find("\n", i)
            i = n if j < 0 else j
        elif two == "/*":
            j = source.find("*/", i + 2)
            j = n if j < 0 else j + 2
            out.append("\n" * source.count("\n", i, j))
            i = j
        elif source[i : i + 2] == 'R"' and (i == 0 or not source[i - 1].isalnum()):
            k = source.find("(", i)
            close = ")" + source[i + 2 : k] + '"'
            j = source.find(close, k)
            j = n if j < 0 else j + len(close)
            out.append('""' + "\n" * source.count("\n", i, j))
            i = j
        elif source[i] in "\"'`" and not (source[i] == "'" and i and source[i - 1].isalnum()):
            i, skipped = end_of_literal(source, i)
            out.append('""' + "\n" * skipped)
        else:
            out.append(source[i])
            i += 1
    return "".join(out)


def end_of_literal(source, i):
    """-> (index after the literal that starts at i, line ends inside it)."""
    quote, j = source[i], i + 1
    while j < len(source) and source[j] != quote:
        if source[j] == "\n" and quote != "`":
            return i + 1, 0  # an apostrophe, not a literal
        j += 2 if source[j] == "\\" else 1
    return min(j + 1, len(source)), source.count("\n", i, j)


def report(title, findings):
    """Prints the findings and ends the process: 0 when there are none."""
    for finding in findings:
        print(finding)
    print(f"{title}: {len(findings)} finding(s) in {len(files())} files")
    raise SystemExit(1 if findings else 0)
