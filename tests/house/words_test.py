#!/usr/bin/env python3
"""Words that must not appear: doors (getenv, line tags), banned calls and identifiers, things left
behind, paths and hosts of somebody's machine. Also the top level and the list of documents."""

import re

import tree

TOP_LEVEL = {"CMakeLists.txt", "CMakePresets.json", "README.md", "DETAILS.md", "CHANGELOG.md", "LICENSE",
             "engine", "serve", "protocol", "web", "include", "tests", "tools"}
PRODUCT = ("include/", "protocol/", "engine/", "serve/")

# (name, pattern, files it applies to, files where it is allowed)
RULES = [
    ("getenv outside the configuration doors", r"\bgetenv\b", PRODUCT, ("engine/options", "serve/config")),
    ("std::regex on text of strangers", r"std::regex|#include <regex>", PRODUCT, ()),
    ("strcmp: decisions are enums", r"\bstrn?cmp\b", PRODUCT, ()),
    ("left behind", r"\b(TODO|FIXME|XXX|HACK)\b", None, ("tests/house/words_test.py",)),
    ("a path that a stranger's clone has not", r"(?<![\w/])(\.\./|/work/)shared\b|/work/(main|shared)\b", None,
     ("tests/house/words_test.py",)),
    ("a package registry's host", r"registry\.npmjs|registry\.yarnpkg|deb\.debian\.org", None,
     ("tests/house/words_test.py",)),
    ("a banned identifier", r"\b\w*([Mm]anager|[Hh]elper|[Mm]isc)\w*\b|\b\w*[Uu]tils?\b|\bnew_\b|\bslot_?v2\b", PRODUCT,
     ("serve/text/",)),
    ("mutable namespace-scope object", r"^(static )?(thread_local )?(std::)?(int|bool|string|vector<.*>|map<.*>|atomic<.*>) g_\w+",
     PRODUCT, ()),
]
# A line tag in quotes belongs to protocol/ alone.
TAGS = re.compile(r'"(GEN|DONE|INFO|READY|LOAD|RESUME|PP|CONV|PRESSURE|PONG|PING|SERR)[ "]')
TAG_PLACES = ("protocol/",)


def rule_findings(path, source):
    code = tree.strip_code(source) if path.endswith(tree.CODE) else source
    found = []
    for name, pattern, places, exceptions in RULES:
        if (places and not path.startswith(places)) or path.startswith(tuple(exceptions) or ("\0",)):
            continue
        body = source if name in ("left behind", "a path that a stranger's clone has not",
                                  "a package registry's host") else code
        for match in re.finditer(pattern, body, flags=re.M):
            line = body.count("\n", 0, match.start()) + 1
            found.append(f"{path}:{line}: {name}: {match.group(0)}")
    return found


def tag_findings(path, source):
    if not path.startswith(PRODUCT) or path.startswith(TAG_PLACES) or not path.endswith(tree.CODE):
        return []
    return [f"{path}: the line tag {m.group(0)} belongs to protocol/" for m in TAGS.finditer(source)]


def top_level_findings():
    found = []
    for path in tree.files():
        first = path.split("/")[0]
        if not first.startswith(".") and first not in TOP_LEVEL:
            found.append(f"{path}: not a part of the top level")
    present = {p.split("/")[0] for p in tree.files()}
    found += [f"{name}: missing from the top level" for name in sorted(TOP_LEVEL - present)]
    return found


def reference_findings(path, source):
    """A document that code names must be in the tree."""
    names = {p.split("/")[-1] for p in tree.with_suffix((".md",))}
    return [f"{path}: names {m.group(0)}, which is not in the tree"
            for m in re.finditer(r"\b[A-Za-z][A-Za-z_-]*\.md\b", source) if m.group(0) not in names]


def document_findings():
    """Notes live in issues and commits: documents are the four of the root, PROTOCOL.md and READMEs."""
    allowed = re.compile(r"^(README|DETAILS|CHANGELOG)\.md$|^protocol/PROTOCOL\.md$|/README\.md$|/ROWS\.md$"
                         r"|^tools/bench/results/.*\.md$")
    return [f"{p}: not one of the documents" for p in tree.with_suffix((".md",)) if not allowed.search(p)]


def self_test():
    planted = [("engine/a.cpp", 'auto x = std::getenv("A");'), ("engine/a.cpp", "// TO" + "DO later"),
               ("serve/a.cpp", "std::regex r;"), ("tests/a.py", 'open("../sha' + 'red/x")'),
               ("serve/a.cpp", "class Slot" + "Manager {};")]
    wrong = [f"self-test: {p}: {s} was not found" for p, s in planted if not rule_findings(p, s)]
    if not tag_findings("serve/a.cpp", 'line.starts_with("DONE ")'):
        wrong.append("self-test: a line tag was not found")
    return wrong


if __name__ == "__main__":
    found = self_test() + top_level_findings() + document_findings()
    for each in tree.files():
        if each.endswith((*tree.CODE, *tree.SCRIPTS, ".txt", ".cmake", ".json", ".md", ".html", ".css")):
            if each.startswith("tools/demo_model/train/lexicon") or each.endswith("-lock.json"):
                continue
            body = tree.text(each)
            found += rule_findings(each, body) + tag_findings(each, body)
            if each.startswith(PRODUCT) and each.endswith(tree.CODE):
                found += reference_findings(each, body)
    tree.report("words", found)
