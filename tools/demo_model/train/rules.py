"""Long system prompts made of numbered rules, and questions about them."""

import pools as P
from pools import (
    ANIMALS,
    CITIES,
    COLOURS,
    FOODS,
    HOBBIES,
    JOBS,
    MONTHS,
    OBJECTS,
    PLACES,
    SUBJECTS,
    WEEKDAYS,
    digits,
    open_name,
    pick,
)

RULE_KINDS = [
    (
        "Refunds are accepted within {v} days.",
        "Within how many days are refunds accepted?",
        "Refunds are accepted within {v} days.",
        digits(3, 90),
    ),
    (
        "The support desk opens at {v}.",
        "When does the support desk open?",
        "The support desk opens at {v}.",
        P.clock,
    ),
    (
        "The support desk closes at {v}.",
        "When does the support desk close?",
        "The support desk closes at {v}.",
        P.clock,
    ),
    (
        "The guest wifi password is {v}.",
        "What is the guest wifi password?",
        "The guest wifi password is {v}.",
        P.password,
    ),
    (
        "The emergency code is {v}.",
        "What is the emergency code?",
        "The emergency code is {v}.",
        P.code,
    ),
    ("Shipping costs {v}.", "How much does shipping cost?", "Shipping costs {v}.", P.money),
    (
        "The weekly meeting takes place on {v}.",
        "When is the weekly meeting?",
        "The weekly meeting takes place on {v}.",
        lambda r: f"{r.choice(WEEKDAYS)} at {P.clock(r)}",
    ),
    (
        "The office is closed on {v}.",
        "On which day is the office closed?",
        "The office is closed on {v}.",
        pick(WEEKDAYS),
    ),
    ("The manager is called {v}.", "Who is the manager?", "The manager is called {v}.", open_name),
    (
        "The deputy manager is called {v}.",
        "Who is the deputy manager?",
        "The deputy manager is called {v}.",
        open_name,
    ),
    (
        "The project is called {v}.",
        "What is the project called?",
        "The project is called {v}.",
        P.invented,
    ),
    (
        "The head office is in {v}.",
        "Where is the head office?",
        "The head office is in {v}.",
        pick(CITIES),
    ),
    (
        "The warehouse is in {v}.",
        "Where is the warehouse?",
        "The warehouse is in {v}.",
        pick(CITIES),
    ),
    (
        "The maximum order size is {v} items.",
        "What is the maximum order size?",
        "The maximum order size is {v} items.",
        digits(5, 900),
    ),
    (
        "Visitors must wear a {v} badge.",
        "What badge must visitors wear?",
        "Visitors must wear a {v} badge.",
        pick(COLOURS),
    ),
    (
        "The annual report is due on {v}.",
        "When is the annual report due?",
        "The annual report is due on {v}.",
        P.date,
    ),
    (
        "The backup server is called {v}.",
        "What is the backup server called?",
        "The backup server is called {v}.",
        P.invented,
    ),
    (
        "The spare key is kept under the {v}.",
        "Where is the spare key kept?",
        "The spare key is kept under the {v}.",
        pick(OBJECTS),
    ),
    (
        "The mascot of the company is the {v}.",
        "What is the mascot of the company?",
        "The mascot of the company is the {v}.",
        pick(ANIMALS),
    ),
    (
        "The canteen serves {v} today.",
        "What does the canteen serve today?",
        "The canteen serves {v} today.",
        pick(FOODS),
    ),
    ("The user's codename is {v}.", "What is my codename?", "Your codename is {v}.", P.codename),
    ("The user's name is {v}.", "What is my name?", "Your name is {v}.", open_name),
    ("The user lives in {v}.", "Where do I live?", "You live in {v}.", pick(CITIES)),
    (
        "The user's favourite colour is {v}.",
        "What is my favourite colour?",
        "Your favourite colour is {v}.",
        pick(COLOURS),
    ),
]
RULE_FILL = [
    "Always answer in {adv} sentences.",
    "Be {tone} and {tone2} at all times.",
    "Never mention the {obj} in the {place} to visitors.",
    "If a {job} asks about {thing}, answer {tone}ly.",
    "Do not talk about {thing} before {day}.",
    "Every {job} must keep a {colour} {obj} in the {place}.",
    "When a question about {thing} comes up, stay {tone}.",
    "Reports about {thing} belong in the {colour} box in the {place}.",
    "No {job} may leave the {place} before {clock}.",
    "Keep notes about {thing} for {n} days.",
    "In {month} all questions about {thing} go to the {job}.",
    "The {place} is cleaned every {day}.",
    "No more than {n} people may enter the {place}.",
    "If the {obj} is missing, tell the {job} at once.",
    "Answer questions about {city} with care.",
    "Use the {colour} form for {thing} and the {colour2} form for everything else.",
]
SYSTEM_SHORT = [
    "You are a helpful assistant.",
    "You are the Strata demo model.",
    "You are a friendly assistant. Keep answers short.",
    "Answer briefly.",
    "You are a small demo model. Answer honestly.",
    "You are a helpful assistant that remembers what the user says.",
    "Be concise.",
]
RULE_FACT = {
    "The user's codename": "codename",
    "The user's name": "name",
    "The user lives": "city",
    "The user's favourite": "favourite colour",
}
TONES = "kind calm polite brief friendly patient careful honest clear".split()


def fill_rule(r):
    return r.choice(RULE_FILL).format(
        adv=r.choice(["short", "clear", "complete", "simple"]),
        tone=r.choice(TONES),
        tone2=r.choice(TONES),
        obj=r.choice(OBJECTS),
        place=r.choice(PLACES),
        job=r.choice(JOBS),
        thing=r.choice(FOODS + HOBBIES + SUBJECTS),
        day=r.choice(WEEKDAYS),
        colour=r.choice(COLOURS),
        colour2=r.choice(COLOURS),
        clock=P.clock(r),
        n=r.randint(2, 60),
        month=r.choice(MONTHS),
        city=r.choice(CITIES),
    )


def rules_prompt(r, chars):
    """-> (text, [(question, answer)], keys of user facts that the rules fix)"""
    kinds = r.sample(RULE_KINDS, r.randint(2, 8))
    facts = []
    for statement, q, a, values in kinds:
        v = values(r)
        facts.append((statement.replace("{v}", v), q, a.replace("{v}", v)))
    lines, size, queue = [], 0, list(facts)
    n_fill = max(2, chars // 62)
    slots = sorted(r.sample(range(n_fill + len(queue)), len(queue)))
    for i in range(n_fill + len(queue)):
        lines.append(queue.pop(0)[0] if slots and i == slots[0] else fill_rule(r))
        if slots and i == slots[0]:
            slots.pop(0)
        size += len(lines[-1])
    head = r.choice(
        [
            "You are the assistant of a small company. Follow these rules:",
            "You are a helpful assistant. Rules of the house:",
            "You are the Strata demo model. Please follow these instructions:",
        ]
    )
    numbered = r.random() < 0.7
    text = (
        head
        + "\n"
        + "\n".join(f"{i + 1}. {x}" if numbered else f"- {x}" for i, x in enumerate(lines))
    )
    asks = [(q, a) for _, q, a in facts]
    if numbered:
        for _ in range(2):
            i = r.randrange(len(lines))
            asks.append(
                (
                    r.choice([f"What does rule {i + 1} say?", f"Quote rule {i + 1}."]),
                    f"Rule {i + 1} says: {lines[i]}",
                )
            )
    taken = {
        key
        for statement, _, _ in facts
        for start, key in RULE_FACT.items()
        if statement.startswith(start)
    }
    return text, asks, taken
