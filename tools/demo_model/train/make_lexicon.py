#!/usr/bin/env python3
"""Build lexicon.json from WordNet 3.0 dictionary files and the "Elements" dictionary.

usage: make_lexicon.py WORDNET_DIR ELEMENTS_DICT_DZ OUT.json

WORDNET_DIR holds index.*, data.* and cntlist.rev (Debian package wordnet-base),
ELEMENTS_DICT_DZ is elements.dict.dz (Debian package dict-elements).
Every entry is [word, part of speech, gloss, example or ""], the most frequent first.
"""
import gzip
import json
import re
import sys
from collections import defaultdict

POS = {"noun": "n", "verb": "v", "adj": "a"}
# lexicographer files: animals, artifacts, bodies, food, natural objects, plants, ...
FRIENDLY_NOUN_FILES = {5, 6, 8, 13, 17, 18, 20, 27}
LIMIT = 15000


def sense_counts(path):
    """(lemma, pos letter) -> highest tag count over its senses."""
    letters = {"1": "n", "2": "v", "3": "a", "5": "a"}
    counts = defaultdict(int)
    for line in open(path, encoding="utf-8"):
        key, _number, count = line.split()[:3]
        lemma, rest = key.split("%")
        pos = letters.get(rest[0])
        if pos:
            counts[lemma, pos] = max(counts[lemma, pos], int(count))
    return counts


def clean(gloss):
    gloss = re.sub(r"\s+", " ", gloss).strip(" ;:,.")
    gloss = re.sub(r"^\([^)]*\)\s*", "", gloss)  # leading "(of fruit)" notes
    return gloss.replace("`", "'").strip(" ;:,.")


def split_gloss(text):
    """WordNet gloss -> (definition, first example sentence)."""
    parts = [p.strip() for p in re.split(r';\s*(?=")', text)]
    definition = clean(parts[0].split('; "')[0])
    definition = clean(definition.split(";")[0])
    example = ""
    for p in parts[1:]:
        m = re.match(r'"([^"]+)"', p)
        if m:
            example = m.group(1).strip()
            break
    return definition, example


def load_wordnet(root):
    counts = sense_counts(f"{root}/cntlist.rev")
    entries = []
    for name, pos in POS.items():
        data = open(f"{root}/data.{name}", "rb").read()
        for line in open(f"{root}/index.{name}", encoding="utf-8"):
            if line.startswith(" "):
                continue
            f = line.split()
            lemma = f[0]
            if not re.fullmatch(r"[a-z]{3,14}", lemma):
                continue
            n_ptr = int(f[3])
            n_sense = int(f[2])
            rows = []
            for offset in map(int, f[6 + n_ptr : 8 + n_ptr]):  # the two most frequent senses
                row = data[offset : data.index(b"\n", offset)].decode("utf-8")
                head, gloss = row.split(" | ", 1)
                rows.append((head.split(), gloss))
            # "otter" is the animal before it is the fur, "oak" the tree before the wood
            rows.sort(key=lambda r: pos != "n" or int(r[0][1]) not in (5, 20))
            h, gloss = rows[0]
            lex_file = int(h[1])
            original = {h[4 + 2 * i].split("(")[0] for i in range(int(h[3], 16))}
            if lemma not in original:  # proper names are capitalised there
                continue
            definition, example = split_gloss(gloss)
            if not 8 <= len(definition) <= 130 or '"' in definition:
                continue
            if lemma in re.findall(r"[a-z]+", definition.lower())[:3]:
                continue
            count = counts[lemma, pos]
            if count == 0 and not (pos == "n" and lex_file in FRIENDLY_NOUN_FILES and n_sense <= 2):
                continue
            if len(example) > 70 or len(example) < 10 or lemma[:4] not in example.lower():
                example = ""
            bonus = 6 if pos == "n" and lex_file in (5, 13, 20) else 0
            rank = (count + bonus) - 0.05 * len(definition)
            entries.append((rank, lemma, pos, definition, example))
    entries.sort(key=lambda e: (-e[0], e[1], e[2]))
    seen, out = set(), []
    for _rank, lemma, pos, definition, example in entries:
        if lemma in seen:  # one sense per spelling
            continue
        seen.add(lemma)
        out.append([lemma, pos, definition, example])
        if len(out) == LIMIT:
            break
    return out


def load_elements(path):
    text = gzip.open(path, "rt", encoding="latin-1").read()
    out = []
    for block in re.split(r"\n\s*\n", text):
        m = re.match(
            r"(\w+)\n\s*Symbol: (\w+)\n\s*Atomic number: (\d+)\n\s*Atomic weight: \(?([\d.]+)",
            block,
        )
        if not m:
            continue
        note = re.sub(r"\s+", " ", block[m.end() :]).strip(" )")
        first = re.split(r"(?<=[.])\s", note)[0] if note else ""
        out.append(
            [
                m.group(1).lower(),
                m.group(2),
                int(m.group(3)),
                m.group(4),
                first if len(first) < 120 else "",
            ]
        )
    return sorted(out, key=lambda e: e[2])


def main():
    root, elements, out = sys.argv[1:4]
    lexicon = {"words": load_wordnet(root), "elements": load_elements(elements)}
    json.dump(lexicon, open(out, "w", encoding="utf-8"), ensure_ascii=False, separators=(",", ":"))
    print(len(lexicon["words"]), "words,", len(lexicon["elements"]), "elements")


if __name__ == "__main__":
    main()
