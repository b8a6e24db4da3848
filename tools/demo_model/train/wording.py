"""Small pieces of English that every part of the generator needs."""


def lower_first(s):
    return s[0].lower() + s[1:]


def upper_first(s):
    return s[0].upper() + s[1:]


def think(short, *steps):
    return {
        "low": short,
        "medium": " ".join(steps[:2]) or short,
        "high": "\n".join(steps) + f"\nLet me check this once more. {short} That looks right.",
    }


def article(word):
    return "an" if word[0] in "aeiou" else "a"
