#!/usr/bin/env python3
"""Writes serve/text/unicode_tables.inc: general categories and case mappings of every code point.

The tables are pinned to one Unicode version, so that a scanner splits text alike on every machine. The
source is the character database inside the interpreter; Debian 12's python3 carries the pinned one.

    /usr/bin/python3 tools/unicode/make_tables.py [--check]

--check compares with the committed file instead of writing it: exit status 1 when they differ, 77 when
this interpreter has another Unicode version.
"""

import pathlib
import sys
import unicodedata

PINNED = "14.0.0"
BLOCK = 128
CATEGORIES = ("Cn Cc Cf Co Cs Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So Zl Zp Zs").split()
CASED, IGNORABLE, DIGIT = 0x20, 0x40, 0x80
TARGET = pathlib.Path(__file__).resolve().parents[2] / "serve/text/unicode_tables.inc"


def properties(code):
    """One byte: category in the low five bits; what the final-sigma rule and isdigit need above."""
    c = chr(code)
    value = CATEGORIES.index(unicodedata.category(c))
    if 0xD800 <= code <= 0xDFFF:
        return value
    # A capital sigma turns final after a cased letter, however many ignorable characters lie between.
    if ("1" + c + "\u03a3").lower()[-1] == "\u03c2":
        value |= CASED
    elif ("a" + c + "\u03a3").lower()[-1] == "\u03c2":
        value |= IGNORABLE
    if c.isdigit():
        value |= DIGIT
    return value


def stages():
    index, blocks, known = [], [], {}
    for start in range(0, 0x110000, BLOCK):
        block = tuple(properties(c) for c in range(start, start + BLOCK))
        if block not in known:
            known[block] = len(blocks)
            blocks.append(block)
        index.append(known[block])
    return index, blocks


def mappings(change):
    """(code point, up to three code points it becomes) for every character that changes alone."""
    rows = []
    for code in range(0x80, 0x110000):
        if 0xD800 <= code <= 0xDFFF:
            continue
        after = [ord(c) for c in change(chr(code))]
        if after != [code]:
            rows.append((code, *after, *[0] * (3 - len(after))))
    return rows


def lines_of(values, width=98):
    out, line = [], "   "
    for value in values:
        if len(line) + len(value) + 2 > width:
            out.append(line)
            line = "   "
        line += f" {value},"
    return out + [line]


def render():
    index, blocks = stages()
    out = [
        f"// Unicode {PINNED}, written by tools/unicode/make_tables.py: do not edit.",
        f"inline constexpr std::string_view kUnicodeVersion = \"{PINNED}\";",
        f"inline constexpr std::size_t kPropertyBlock = {BLOCK};",
        f"inline constexpr std::uint8_t kPropertyBlockOf[{len(index)}] = {{",
    ]
    if len(blocks) > 256:
        raise SystemExit(f"{len(blocks)} blocks do not fit the index of one byte")
    out += lines_of([str(i) for i in index])
    out += ["};", f"inline constexpr std::uint8_t kProperties[{len(blocks)}][kPropertyBlock] = {{"]
    for block in blocks:
        out += ["    {"] + lines_of([str(v) for v in block]) + ["    },"]
    out += ["};"]
    # Titlecase is listed only where it is not the uppercase.
    upper = mappings(str.upper)
    known = {row[0]: row for row in upper}
    title = [row for row in mappings(str.title) if known.get(row[0]) != row]
    title += [(c, c, 0, 0) for c in known if chr(c).title() == chr(c)]
    for name, rows in (("kLower", mappings(str.lower)), ("kUpper", upper), ("kTitle", sorted(title))):
        out += [f"inline constexpr CaseRow {name}[{len(rows)}] = {{"]
        out += lines_of([f"{{{hex(row[0])}, {{{', '.join(hex(v) for v in row[1:])}}}}}" for row in rows])
        out += ["};"]
    return "\n".join(out) + "\n"


def main():
    if unicodedata.unidata_version != PINNED:
        print(f"SKIP: this interpreter has Unicode {unicodedata.unidata_version}, the tables are {PINNED}")
        raise SystemExit(77)
    text = render()
    if "--check" in sys.argv:
        same = TARGET.read_text() == text
        print("tables are up to date" if same else f"{TARGET.name} differs from what this script writes")
        raise SystemExit(0 if same else 1)
    TARGET.write_text(text)
    print(f"{TARGET.name}: {len(text)} bytes")


if __name__ == "__main__":
    main()
