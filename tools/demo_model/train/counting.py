"""Counting, sorting, spelling and comparing: units whose answers can be computed."""

from pools import ANIMALS, COLOURS, FOODS, MONTHS, OBJECTS, PLACES, WEEKDAYS
from wording import think, upper_first


def count_up(r, lex):
    x, n = r.randint(0, 40), r.randint(3, 14)
    seq = list(range(x, x + n))
    return (
        r.choice(
            [
                f"Count from {seq[0]} to {seq[-1]}.",
                f"Please count from {seq[0]} up to {seq[-1]}.",
            ]
        ),
        ", ".join(map(str, seq)) + ".",
        think("I count one by one.", f"I start at {seq[0]}.", f"I stop at {seq[-1]}."),
    )


def count_down(r, lex):
    x, n = r.randint(10, 40), r.randint(3, 10)
    seq = list(range(x, x - n, -1))
    return (
        f"Count down from {seq[0]} to {seq[-1]}.",
        ", ".join(map(str, seq)) + ".",
        think("I count downwards.", f"I start at {seq[0]}.", f"I stop at {seq[-1]}."),
    )


def sort_words(r, lex):
    words = r.sample(OBJECTS + ANIMALS + FOODS, r.randint(3, 6))
    done = ", ".join(sorted(words))
    return (
        r.choice(
            [
                f"Sort these words alphabetically: {', '.join(words)}.",
                f"Put in alphabetical order: {', '.join(words)}",
                f"Sort: {', '.join(words)}.",
            ]
        ),
        f"In alphabetical order: {done}.",
        think(
            "I compare the first letters.",
            "I sort the words by their first letters.",
            f"The first one is {sorted(words)[0]}.",
            f"The order is {done}.",
        ),
    )


def sort_numbers(r, lex):
    nums = [r.randint(1, 99) for _ in range(r.randint(3, 6))]
    done = ", ".join(map(str, sorted(nums)))
    return (
        r.choice(
            [
                f"Sort these numbers: {', '.join(map(str, nums))}.",
                f"Sort from smallest to largest: {', '.join(map(str, nums))}.",
            ]
        ),
        f"Sorted: {done}.",
        think(
            "I order them from small to large.",
            f"The smallest is {min(nums)}.",
            f"The largest is {max(nums)}.",
            f"In order: {done}.",
        ),
    )


def spell(r, lex):
    word = (
        r.choice(OBJECTS + ANIMALS + FOODS + PLACES + COLOURS)
        if r.random() < 0.5
        else r.choice(lex["words"][:4000])[0]
    )
    done = "-".join(word.upper())
    return (
        r.choice([f"Spell {word}.", f"How do you spell '{word}'?", f"Spell the word {word}."]),
        f"{upper_first(word)} is spelled {done}.",
        think("I say each letter.", f"The word is {word}.", f"Its letters are {done}."),
    )


def count_letters(r, lex):
    word = r.choice(OBJECTS + ANIMALS + PLACES + COLOURS)
    return (
        r.choice(
            [
                f"How many letters does '{word}' have?",
                f"How many letters are in the word {word}?",
            ]
        ),
        f"'{upper_first(word)}' has {len(word)} letters.",
        think(
            f"I count the letters of {word}.",
            f"The letters are {'-'.join(word)}.",
            f"That makes {len(word)}.",
        ),
    )


def compare(r, lex):
    x, y = r.sample(range(1, 999), 2)
    return (
        r.choice([f"Which is larger, {x} or {y}?", f"Which number is bigger: {x} or {y}?"]),
        f"{max(x, y)} is larger than {min(x, y)}.",
        think("I compare them.", f"I compare {x} and {y}.", f"{max(x, y)} is larger."),
    )


def next_day_or_month(r, lex):
    i, days = r.randrange(7), WEEKDAYS
    if r.random() < 0.5:
        return (
            f"Which day comes after {days[i]}?",
            f"After {days[i]} comes {days[(i + 1) % 7]}.",
            think(
                "I go one day on.",
                f"The day is {days[i]}.",
                f"The next one is {days[(i + 1) % 7]}.",
            ),
        )
    j = r.randrange(12)
    return (
        f"Which month comes after {MONTHS[j]}?",
        f"After {MONTHS[j]} comes {MONTHS[(j + 1) % 12]}.",
        think(
            "I go one month on.",
            f"The month is {MONTHS[j]}.",
            f"The next one is {MONTHS[(j + 1) % 12]}.",
        ),
    )


COUNTING = [
    count_up,
    count_down,
    sort_words,
    sort_numbers,
    spell,
    count_letters,
    compare,
    next_day_or_month,
]


def u_count(r, lex):
    return COUNTING[r.randrange(8)](r, lex)
