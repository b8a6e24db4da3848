"""Short stories with a summary and questions about them."""

from pools import (
    ADJECTIVES,
    ANIMALS,
    COLOURS,
    FOODS,
    OBJECTS,
    PLACES,
    SEASONS,
    WEEKDAYS,
    open_name,
    open_word,
)
from wording import article

STORY_START = [
    "Once upon a time there was {art} {adj} {animal} called {name}.",
    "{name} was {art} {adj} {animal} who lived near the {place}.",
    "In a {place} far away lived {art} {adj} {animal} called {name}.",
    "There once lived {art} {adj} {animal} called {name} near the {place}.",
]
STORY_LIKE = [
    "Every day {name} played with a {colour} {obj}.",
    "{name} loved a {colour} {obj} more than anything else.",
    "{name} always carried a {colour} {obj}.",
    "{name} owned a beautiful {colour} {obj}.",
]
STORY_LOSS = [
    "One {day} the {obj} was gone.",
    "One {season} morning the {obj} disappeared.",
    "On a rainy {day} {name} lost the {obj}.",
    "One day a strong wind carried the {obj} away.",
]
STORY_SEARCH = [
    "{name} looked everywhere, behind every tree and under every stone, but could not find it.",
    "{name} searched the whole {place} and felt very sad.",
    "{name} sat down and cried for a while.",
]
STORY_HELP = [
    "Then {art2} {animal2} called {name2} came by and asked what was wrong.",
    "A friendly {animal2} called {name2} heard about it and offered to help.",
    "Luckily a wise {animal2} called {name2} was passing by.",
]
STORY_FIND = [
    "Together they walked to the {place2}, and there lay the {obj}.",
    "They followed the tracks to the {place2} and found the {obj} there.",
    "{name2} remembered seeing the {obj} at the {place2}, so they went there at once.",
]
STORY_EXTRA = [
    "On the way they sang a song and ate some {food}.",
    "The way was long, but the stars were bright.",
    "They had to cross a {place3} first.",
    "It took them until the evening.",
]
STORY_END = [
    "{name} was so happy that the two became friends.",
    "From that day on {name} and {name2} were best friends.",
    "{name} thanked {name2}, and they shared some {food}.",
    "In the evening they had {food} together and laughed.",
]
STORY_MORAL = [
    "",
    "",
    " And so {name} learned that friends are worth more than any {obj}.",
    " Since then {name} has always helped others, too.",
]


class Story:
    def __init__(self, r):
        thing = lambda pool: r.choice(pool) if r.random() < 0.75 else open_word(r)  # noqa: E731
        self.v = dict(
            name=open_name(r),
            name2=open_name(r),
            adj=r.choice(ADJECTIVES),
            animal=thing(ANIMALS),
            animal2=thing(ANIMALS),
            obj=thing(OBJECTS),
            colour=r.choice(COLOURS),
            place=r.choice(PLACES),
            place2=r.choice(PLACES),
            place3=r.choice(PLACES),
            food=r.choice(FOODS),
            day=r.choice(WEEKDAYS),
            season=r.choice(SEASONS),
        )
        self.v["art"], self.v["art2"] = article(self.v["adj"]), article(self.v["animal2"])
        v = self.v
        parts = (
            [STORY_START, STORY_LIKE, STORY_LOSS, STORY_SEARCH, STORY_HELP]
            + ([STORY_EXTRA] if r.random() < 0.5 else [])
            + [STORY_FIND, STORY_END]
        )
        self.text = " ".join(r.choice(p).format(**v) for p in parts) + r.choice(STORY_MORAL).format(
            **v
        )
        self.summary = "{name} the {animal} lost a {colour} {obj} and found it at the {place2} with the help of {name2} the {animal2}.".format(
            **v
        )

    def prompt(self, r):
        v = self.v
        return r.choice(
            [
                "Tell me a story about {art3} {animal}.",
                "Tell me a short story about {art3} {animal} called {name}.",
                "Tell me a story about {art3} {animal} and a {obj}.",
                "Write a short story about {art3} {animal} and {art2} {animal2}.",
                "Tell me a story about {name} the {animal}.",
                "Write a story with {art3} {adj} {animal}, a {colour} {obj} and a {place2}.",
                "Please tell me a bedtime story about {art3} {animal}.",
                "Tell me a story about a {colour} {obj}.",
                "Tell me a story.",
                "Write a short story.",
            ]
        ).format(art3=article(v["animal"]), **v)

    def questions(self, r):
        v = self.v
        out = [
            (
                r.choice(
                    [
                        "Summarize the story.",
                        "Give me a summary of the story.",
                        "Sum up the story in one sentence.",
                        "Please summarise that story.",
                    ]
                ),
                self.summary,
            ),
            (
                r.choice(["What did {name} lose?", "What was lost in the story?"]),
                "{name} lost a {colour} {obj}.",
            ),
            (
                r.choice(["Who helped {name}?", "Who helped in the story?"]),
                "{name2} the {animal2} helped {name}.",
            ),
            (
                r.choice(["Where was the {obj}?", "Where did they find the {obj}?"]),
                "They found the {obj} at the {place2}.",
            ),
            (
                r.choice(["What kind of animal was {name}?", "What animal is {name}?"]),
                "{name} was {art} {adj} {animal}.",
            ),
            (
                r.choice(["What colour was the {obj}?", "What was the colour of the {obj}?"]),
                "The {obj} was {colour}.",
            ),
            (
                "Who is the main character of the story?",
                "The main character is {name} the {animal}.",
            ),
        ]
        q, a = r.choice(out[:1] * 3 + out[1:])
        return q.format(**v), a.format(**v)
