#!/usr/bin/env python3
"""File and function sizes: 600 lines a file (kernels 800), 70 lines a function, 100 columns of C++."""

import ast
import re

import tree

FILE_LINES_MAX = 600
KERNEL_LINES_MAX = 800
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 100
# Tables of a format or of a language: data, not code. The list may only shrink.
TABLES = (".inc",)
TRANSPARENT = re.compile(r"\b(namespace|class|struct|enum|union|extern)\b")


def file_findings(path, source):
    lines = source.count("\n")
    kernel = "/kernels" in path or path.endswith((".cu", ".cuh"))
    limit = KERNEL_LINES_MAX if kernel else FILE_LINES_MAX
    return [f"{path}: {lines} lines, allowed are {limit}"] if lines > limit else []


def brace_functions(source):
    """(first line, last line) of every outermost function body of C++ or JavaScript."""
    code = tree.strip_code(source)
    code = re.sub(r"^\s*#.*?(?<!\\)$", "", code, flags=re.M)
    spans, stack, head, line, head_line = [], [], "", 1, 1
    for c in code:
        if c == "\n":
            line += 1
        if c == "{":
            inside = any(kind == "function" for kind, _ in stack)
            body = "(" in head and not TRANSPARENT.search(head.split("(")[0]) or "=>" in head
            stack.append(("function" if body and not inside else "other", head_line))
            head = ""
        elif c == "}":
            if stack:
                kind, start = stack.pop()
                if kind == "function":
                    spans.append((start, line))
            head = ""
        elif c == ";":
            head = ""
        else:
            if not head.strip() and not c.isspace():
                head_line = line
            head += c
    return spans


def python_functions(source):
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [(n.lineno, n.end_lineno) for n in ast.walk(ast.parse(source)) if isinstance(n, kinds)]


def shell_functions(source):
    spans, start = [], None
    for number, line in enumerate(source.split("\n"), 1):
        if re.match(r"^\w+\(\) \{$", line):
            start = number
        elif line == "}" and start:
            spans.append((start, number))
            start = None
    return spans


def function_findings(path, source):
    if path.endswith(".py"):
        spans = python_functions(source)
    elif path.endswith(".sh"):
        spans = shell_functions(source)
    else:
        spans = brace_functions(source)
    return [f"{path}:{a}: a function of {b - a + 1} lines, allowed are {FUNCTION_LINES_MAX}"
            for a, b in spans if b - a + 1 > FUNCTION_LINES_MAX]


def column_findings(path, source):
    return [f"{path}:{number}: {len(line)} columns, allowed are {COLUMNS_MAX}"
            for number, line in enumerate(source.split("\n"), 1)
            if len(line) > COLUMNS_MAX and "http" not in line and 'R"' not in line and '"' not in line]


def self_test():
    long_body = "int f() {\n" + "x();\n" * FUNCTION_LINES_MAX + "}\n"
    nested = "namespace a {\nclass B {\n  int f() const {\n" + "x();\n" * FUNCTION_LINES_MAX + "}\n};\n}\n"
    short = "namespace a {\n" + "int f() {\n x(); }\n" * FUNCTION_LINES_MAX + "}\n"
    wrong = []
    if not function_findings("a.cpp", long_body) or not function_findings("a.cpp", nested):
        wrong.append("self-test: a long function was not found")
    if function_findings("a.cpp", short):
        wrong.append("self-test: short functions were reported")
    if not file_findings("a.cpp", "\n" * (FILE_LINES_MAX + 1)):
        wrong.append("self-test: a long file was not found")
    return wrong


if __name__ == "__main__":
    found = self_test()
    for each in tree.with_suffix((*tree.CODE, *tree.SCRIPTS, ".css", ".html")):
        if each.endswith(TABLES):
            continue
        body = tree.text(each)
        found += file_findings(each, body)
        if not each.endswith((".css", ".html")):
            found += function_findings(each, body)
        if each.endswith((".cpp", ".hpp", ".cu", ".cuh")):
            found += column_findings(each, body)
    tree.report("sizes", found)
