#!/usr/bin/env python3
"""Random templates rendered by Jinja and by serve_text_render: the same bytes, or an error in both.

    jinja_fuzz.py PATH_TO_serve_text_render [seed [count]]

Exit status 77 when this interpreter has no jinja2.
"""

import json
import pathlib
import random
import subprocess
import sys
import warnings

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "fixtures/text/jinja"
sys.path.insert(0, str(FIXTURES))

CONTEXT = {
    "i": 7, "j": -3, "z": 0, "f": 2.5, "g": -0.125, "s": "Hello, World", "t": "  two  words\n", "e": "", "u": "Ünï ß 你 😀",
    "n": None, "b": True, "c": False, "l": [3, 1, 2], "m": ["b", "A", "c", "A"], "k": [], "d": {"x": 1, "y": "why", "w": [1, {"q": None}]},
    "o": {}, "r": [{"a": 1, "s": "p"}, {"a": 2, "s": "q"}, {"a": 1, "s": "p"}],
}
ATOMS = list(CONTEXT) + ["zzz", "1", "2", "0", "-1", "10", "1.5", "0.1", "'a'", "'A b'", "''", "', '", "'l'", "none", "true",
                         "false", "[]", "[1, 'a']", "(1, 2)", "{'x': i}", "range(3)", "'%s'", "'{}'", "d.x", "d['y']", "r[0].a", "l[-1]"]
FILTERS = ["upper", "lower", "title", "capitalize", "trim", "length", "count", "string", "list", "first", "last", "join", "join(', ')",
           "join('-', attribute='a')", "sort", "sort(reverse=true)", "sort(attribute='s')", "unique | list", "reverse | list", "int", "int(5)",
           "float", "round", "round(1)", "round(2, 'floor')", "abs", "default('D')", "default('D', true)", "tojson", "tojson(indent=1)",
           "items | list", "dictsort", "map('upper') | list", "map(attribute='a') | list", "map('length') | list", "select | list",
           "reject('none') | list", "selectattr('a', 'equalto', 1) | list", "rejectattr('a') | list", "sum", "max", "min", "replace('l', 'L')",
           "replace('a', 'bb', 1)", "indent(2)", "indent(1, true)", "truncate(6)", "truncate(5, true, '~', 0)", "wordcount", "center(9)",
           "batch(2) | list", "slice(2) | list", "groupby('a') | map('first') | list", "format(i)", "d('x')"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "sequence", "iterable", "true", "false",
         "odd", "even", "divisibleby 2", "eq 1", "in [1, 'a']", "upper", "lower", "sameas none", "gt 1", "lt 'b'", "callable"]
METHODS = ["upper()", "strip()", "split()", "split(',')", "split('l', 1)", "rsplit(' ', 1)", "lower()", "title()", "startswith('H')",
           "endswith('d')", "find('o')", "replace('o', '0')", "count('l')", "items() | list", "keys() | list", "values() | list", "get('x')",
           "get('q', 5)", "lstrip('H')", "rstrip()", "splitlines()", "isdigit()", "isalpha()", "zfill(5)", "format(i, j)", "join(m)",
           "partition('l')", "index(1)", "capitalize()", "swapcase()", "x", "y", "items", "zzz", "center(7, '*')"]
BINARY = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", ">", "<=", ">=", "and", "or", "in", "not in"]


def expression(dice, depth):
    kind = dice.randrange(16) if depth > 0 else 0
    sub = lambda: expression(dice, depth - 1)
    if kind <= 2:
        return dice.choice(ATOMS)
    if kind <= 6:
        return f"({sub()} {dice.choice(BINARY)} {sub()})"
    if kind <= 8:
        return f"({sub()} | {dice.choice(FILTERS)})"
    if kind == 9:
        return f"({sub()} is {dice.choice(['', 'not '])}{dice.choice(TESTS)})"
    if kind <= 11:
        return f"({sub()}).{dice.choice(METHODS)}"
    if kind == 12:
        return f"({sub()})[{sub()}]"
    if kind == 13:
        parts = [dice.choice(["", "", str(dice.randrange(-4, 5))]) for _ in range(3)]
        return f"({sub()})[{':'.join(parts)}]"
    if kind == 14:
        return f"({sub()} if {sub()} else {sub()})"
    return dice.choice([f"[{sub()}, {sub()}]", f"(not {sub()})", f"(-{sub()})", f"{{'k': {sub()}}}", f"({sub()}, {sub()})"])


def statement(dice, depth):
    kind = dice.randrange(9) if depth > 0 else 0
    body = lambda: "".join(statement(dice, depth - 1) for _ in range(dice.randrange(3)))
    tag = lambda text: f"{{%{dice.choice(['', '', '-', '+'])} {text} {dice.choice(['', '', '-', '+'])}%}}" + dice.choice(["", "", "\n", "\n  ", " "])
    value = lambda: expression(dice, 2)
    if kind <= 2:
        return dice.choice(["text ", "\n", "  \n  ", f"{{{{ {value()} }}}}", f"{{{{- {value()} -}}}} ", "{# note #}\n", "  {#- note -#}  x"])
    if kind == 3:
        return tag(f"if {value()}") + body() + dice.choice(["", tag(f"elif {value()}") + body(), tag("else") + body()]) + tag("endif")
    if kind == 4:
        extra = dice.choice(["", "", " if v", " if v != 1"])
        inner = body() + dice.choice(["", "{{ v }}", "{{ loop.index }}/{{ loop.length }} ", "{{ loop.last }}", tag("if loop.index0 == 1") + tag(dice.choice(["break", "continue"])) + tag("endif")])
        return tag(f"for v in {value()}{extra}") + inner + dice.choice(["", tag("else") + body()]) + tag("endfor")
    if kind == 5:
        return tag(f"set {dice.choice(['v', 'i', 's', 'q'])} = {value()}")
    if kind == 6:
        return tag("set q") + body() + tag("endset") + "{{ q }}"
    if kind == 7:
        return tag("macro q(v, i=2)") + body() + "{{ v }}{{ i }}" + tag("endmacro") + f"{{{{ q({value()}) }}}}"
    return dice.choice([tag("filter upper") + body() + tag("endfilter"), tag(f"with v = {value()}") + body() + tag("endwith")])


def comparable(wanted, got):
    """What is known to differ: addresses, how a range is printed, integers beyond 64 bits, complex powers,
    and slices of constants that have none, which Jinja's optimizer makes undefined."""
    text, error = wanted.get("out", ""), got.get("error", "")
    odd = " at 0x" in text or "<Macro" in text or "range(" in text
    return not odd and not any(words in error for words in ("64 bits", "cannot be sliced", "'**' is out of range"))


def main():
    try:
        import oracle
    except ImportError:
        print("SKIP: this interpreter has no jinja2")
        raise SystemExit(77)
    warnings.simplefilter("ignore")  # Python's remarks on slices of constants
    dice = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 3000
    rows = [{"template": f"{{{{ {expression(dice, 4)} }}}}" if n % 3 else statement(dice, 3) + statement(dice, 3), "context": CONTEXT}
            for n in range(count)]
    out = subprocess.run([sys.argv[1]], input=json.dumps(rows), capture_output=True, text=True, timeout=100, check=True).stdout
    bad = outputs = 0
    for row, got in zip(rows, json.loads(out)):
        wanted = oracle.render(row["template"], json.loads(json.dumps(CONTEXT)))
        outputs += "out" in wanted
        if not comparable(wanted, got) or ("error" in wanted and "error" in got) or wanted == got:
            continue
        bad += 1
        print(f"template {row['template']!r}\n  jinja2: {wanted}\n  ours:   {got}")
    print(f"{count} templates, {outputs} with an output, {bad} differ")
    raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
    main()
