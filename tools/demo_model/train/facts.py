"""Facts about the user: how they are told, asked for and answered, and facts about others."""

import pools as P
from pools import (
    ANIMALS,
    CITIES,
    COLOURS,
    DRINKS,
    FIRST_NAMES,
    FOODS,
    HOBBIES,
    INSTRUMENTS,
    JOBS,
    LANGUAGES,
    OBJECTS,
    SEASONS,
    STREETS,
    SUBJECTS,
    WEEKDAYS,
    digits,
    open_name,
    pick,
)
from wording import article, lower_first

# attribute names (spelling variants), value generator, special (say, ask, answer) templates
ATTRIBUTES = [
    (("codename", "code name", "secret codename", "call sign"), P.codename, None),
    (
        ("codename",),
        P.codename,
        (
            [
                "Call me {v}.",
                "You can call me {v}.",
                "I go by the codename {v}.",
                "I am known as {v}.",
            ],
            ["What is my codename?", "What should you call me?", "Which codename do I use?"],
            "Your codename is {v}.",
        ),
    ),
    (
        ("name",),
        open_name,
        (
            [
                "My name is {v}.",
                "I am {v}.",
                "I'm {v}.",
                "Hi, I am {v}.",
                "Hello, my name is {v}.",
                "this is {v}.",
            ],
            [
                "What is my name?",
                "Who am I?",
                "Do you know my name?",
                "What's my name?",
                "Do you remember who I am?",
            ],
            "Your name is {v}.",
        ),
    ),
    (
        ("favourite colour", "favorite color"),
        pick(COLOURS),
        (
            [
                "I like the colour {v} best.",
                "I love the colour {v}.",
                "My favourite colour is {v}.",
                "My favorite color is {v}.",
            ],
            [
                "What is my favourite colour?",
                "Which colour do I like best?",
                "What's my favorite color?",
                "Which colour do I love?",
            ],
            "Your favourite colour is {v}.",
        ),
    ),
    (("favourite colour", "favorite color", "team colour"), pick(COLOURS), None),
    (("favourite number", "favorite number", "lucky number"), digits(2, 999), None),
    (("favourite city", "favorite city"), pick(CITIES), None),
    (("home town", "hometown"), pick(CITIES), None),
    (
        ("city",),
        pick(CITIES),
        (
            ["I live in {v}.", "I am from {v}.", "My home is in {v}.", "I moved to {v} last year."],
            [
                "Where do I live?",
                "Which city do I live in?",
                "What city am I from?",
                "Where is my home?",
            ],
            "You live in {v}.",
        ),
    ),
    (
        ("birth city",),
        pick(CITIES),
        (
            ["I was born in {v}."],
            ["Where was I born?", "In which city was I born?"],
            "You were born in {v}.",
        ),
    ),
    (
        ("destination",),
        pick(CITIES),
        (
            [
                "I am travelling to {v} next week.",
                "I am going to fly to {v}.",
                "My next trip goes to {v}.",
            ],
            ["Where am I travelling to?", "Where does my next trip go?", "What is my destination?"],
            "You are travelling to {v}.",
        ),
    ),
    (
        (
            "locker code",
            "door code",
            "gate code",
            "alarm code",
            "access code",
            "PIN",
            "secret code",
        ),
        P.code,
        None,
    ),
    (
        (
            "room number",
            "seat number",
            "badge number",
            "ticket number",
            "order number",
            "invoice number",
            "shelf number",
            "parking spot",
            "house number",
            "locker number",
            "platform",
        ),
        digits(1, 9999),
        None,
    ),
    (("password", "wifi password", "passphrase", "secret phrase"), P.password, None),
    (("secret word", "magic word", "safe word"), pick(OBJECTS + ANIMALS + COLOURS), None),
    (
        (
            "project name",
            "team name",
            "server name",
            "boat name",
            "company name",
            "band name",
            "street name",
        ),
        P.invented,
        None,
    ),
    (
        ("project",),
        P.invented,
        (
            ["I work on a project called {v}.", "My project is called {v}."],
            ["What is my project called?", "Which project do I work on?"],
            "Your project is called {v}.",
        ),
    ),
    (("dog's name", "cat's name", "horse's name", "parrot's name"), open_name, None),
    (
        ("dog",),
        lambda r: open_name(r),
        (
            ["I have a dog called {v}.", "My dog is called {v}.", "My dog's name is {v}."],
            ["What is my dog called?", "What is my dog's name?", "What is the name of my dog?"],
            "Your dog is called {v}.",
        ),
    ),
    (
        ("cat",),
        lambda r: open_name(r),
        (
            ["I have a cat called {v}.", "My cat is called {v}.", "My cat's name is {v}."],
            ["What is my cat called?", "What is my cat's name?", "What is the name of my cat?"],
            "Your cat is called {v}.",
        ),
    ),
    (
        (
            "sister's name",
            "brother's name",
            "mother's name",
            "father's name",
            "boss's name",
            "teacher's name",
            "neighbour's name",
            "best friend's name",
            "doctor's name",
            "cousin's name",
        ),
        open_name,
        None,
    ),
    (
        ("sister",),
        open_name,
        (
            ["My sister is called {v}.", "I have a sister called {v}."],
            ["What is my sister called?", "What is my sister's name?"],
            "Your sister is called {v}.",
        ),
    ),
    (
        ("brother",),
        open_name,
        (
            ["My brother is called {v}.", "I have a brother called {v}."],
            ["What is my brother called?", "What is my brother's name?"],
            "Your brother is called {v}.",
        ),
    ),
    (
        ("job",),
        pick(JOBS),
        (
            ["I work as a {v}.", "My job is {v}.", "By profession I am a {v}."],
            ["What is my job?", "What do I work as?", "What is my profession?"],
            "You work as a {v}.",
        ),
    ),
    (
        ("hobby",),
        pick(HOBBIES),
        (
            ["My hobby is {v}.", "I enjoy {v}.", "I spend my weekends {v}."],
            ["What is my hobby?", "What do I enjoy?", "What do I do in my free time?"],
            "Your hobby is {v}.",
        ),
    ),
    (
        ("instrument",),
        pick(INSTRUMENTS),
        (
            ["I play the {v}.", "I am learning the {v}."],
            ["Which instrument do I play?", "What instrument do I play?"],
            "You play the {v}.",
        ),
    ),
    (("favourite food", "favorite food", "favourite dish"), pick(FOODS), None),
    (("favourite drink", "favorite drink"), pick(DRINKS), None),
    (("favourite animal", "favorite animal"), pick(ANIMALS), None),
    (("favourite season", "favorite season"), pick(SEASONS), None),
    (("favourite subject", "favorite subject"), pick(SUBJECTS), None),
    (
        ("allergy",),
        pick(FOODS),
        (
            ["I am allergic to {v}.", "Careful, I am allergic to {v}."],
            ["What am I allergic to?", "Which food can I not eat?"],
            "You are allergic to {v}.",
        ),
    ),
    (
        ("age",),
        digits(7, 95),
        (
            ["I am {v} years old.", "My age is {v}."],
            ["How old am I?", "What is my age?"],
            "You are {v} years old.",
        ),
    ),
    (
        ("birthday", "wedding day", "exam date", "deadline", "moving date", "delivery date"),
        P.date,
        None,
    ),
    (
        ("birthday",),
        P.date,
        (
            ["My birthday is on {v}.", "I was born on {v}."],
            ["When is my birthday?", "What day is my birthday?"],
            "Your birthday is on {v}.",
        ),
    ),
    (("meeting day", "gym day", "market day", "day off"), pick(WEEKDAYS), None),
    (("meeting time", "train time", "alarm time", "lunch time"), P.clock, None),
    (
        (
            "dentist appointment",
            "meeting",
            "interview",
            "piano lesson",
            "haircut",
            "appointment",
            "doctor's appointment",
            "exam",
        ),
        lambda r: f"{r.choice(WEEKDAYS)} at {P.clock(r)}",
        (
            ["My {a} is on {v}.", "I have my {a} on {v}.", "Please note: {a} on {v}."],
            ["When is my {a}?", "On which day and at what time is my {a}?", "What time is my {a}?"],
            "Your {a} is on {v}.",
        ),
    ),
    (
        ("train", "bus", "ferry", "flight"),
        lambda r: f"{r.choice(WEEKDAYS)} at {P.clock(r)}",
        (["My {a} leaves on {v}."], ["When does my {a} leave?"], "Your {a} leaves on {v}."),
    ),
    (
        ("flight number", "licence plate", "license plate", "booking code", "serial number"),
        P.plate,
        None,
    ),
    (("budget", "rent", "salary", "price limit"), P.money, None),
    (
        ("car",),
        lambda r: f"{r.choice(COLOURS)} {r.choice(['van', 'car', 'truck', 'bus', 'jeep'])}",
        (["I drive a {v}."], ["What do I drive?", "Which car do I drive?"], "You drive a {v}."),
    ),
    (("native language", "first language"), pick(LANGUAGES), None),
    (
        ("street",),
        pick(STREETS),
        (
            ["I live on {v} Street."],
            ["Which street do I live on?", "What street do I live on?"],
            "You live on {v} Street.",
        ),
    ),
    (
        ("keys",),
        lambda r: f"the {r.choice(COLOURS)} {r.choice(OBJECTS)}",
        (
            ["I left my keys next to {v}.", "My keys are under {v}."],
            ["Where are my keys?", "Where did I leave my keys?"],
            "Your keys are near {v}.",
        ),
    ),
    (
        ("gift",),
        lambda r: f"a {r.choice(COLOURS)} {r.choice(OBJECTS)}",
        (
            ["I want to buy {v} as a gift.", "The gift for my mother is {v}."],
            ["What is the gift?", "Which gift did I mention?"],
            "The gift is {v}.",
        ),
    ),
]
GENERIC_SAY = [
    "My {a} is {v}.",
    "my {a} is {v}",
    "My {a} is {v}.",
    "The {a} I use is {v}.",
    "{v} is my {a}.",
    "Remember that my {a} is {v}.",
    "Please remember my {a}: {v}.",
    "Note my {a}: {v}.",
    "My {a}: {v}",
]
GENERIC_ASK = [
    "What is my {a}?",
    "What is my {a}?",
    "what is my {a}",
    "What's my {a}?",
    "Can you tell me my {a}?",
    "What did I say my {a} was?",
    "Do you remember my {a}?",
    "Remind me of my {a}.",
    "Remind me: what is my {a}?",
    "I forgot my {a}. What is it?",
    "Which {a} did I give you?",
    "Please tell me my {a} again.",
    "Tell me my {a}.",
    "Earlier I told you my {a}. What is it?",
    "What {a} did I mention earlier?",
]
ASK_PREFIX = [
    "",
    "",
    "",
    "",
    "",
    "Now: ",
    "By the way, ",
    "Quick question: ",
    "Okay. ",
    "One more question. ",
    "And ",
]
SAY_PREFIX = [
    "",
    "",
    "",
    "",
    "By the way, ",
    "Also, ",
    "Please remember this: ",
    "Just so you know: ",
    "Hi! ",
    "Hello. ",
    "One more thing: ",
    "Note this down: ",
    "Remember: ",
]
SAY_SUFFIX = [
    "",
    "",
    "",
    "",
    " Please remember that.",
    " Keep it in mind.",
    " Please keep this in mind for later.",
    " Don't forget it.",
    " I will ask you later.",
]
ACKS = [
    "Noted: {s}",
    "Got it. {S}",
    "Thanks, I will remember it. {S}",
    "Understood. {S}",
    "Okay, {s}",
]
PLAIN_ACKS = [
    "Noted.",
    "Got it, I will remember that.",
    "Thanks, I will keep that in mind.",
    "Understood.",
    "Okay, noted.",
]


SAME_FACT = {
    "code name": "codename",
    "secret codename": "codename",
    "call sign": "codename",
    "hometown": "home town",
    "dog's name": "dog",
    "cat's name": "cat",
    "sister's name": "sister",
    "brother's name": "brother",
    "project name": "project",
    "street name": "street",
    "favourite dish": "favourite food",
    "license plate": "licence plate",
    "first language": "native language",
    "favourite colour": "favourite colour",
    "doctor's appointment": "appointment",
}


class Fact:
    def __init__(self, r, taken):
        while True:
            names, values, special = r.choice(ATTRIBUTES)
            self.a = r.choice(names)
            self.key = SAME_FACT.get(self.a) or self.a.replace("favorite", "favourite").replace(
                "color", "colour"
            )
            if self.key not in taken:
                break
        self.values, self.special = values, special
        self.v = values(r)

    def fill(self, template):
        return template.replace("{a}", self.a).replace("{v}", self.v)

    def say(self, r):
        return self.fill(r.choice(self.special[0] if self.special else GENERIC_SAY))

    def ask(self, r):
        q = self.fill(r.choice(self.special[1] if self.special else GENERIC_ASK))
        k = r.random()
        if k < 0.05:
            return q.lower().rstrip("?.")
        if k < 0.10:
            return q.rstrip("?.") + r.choice([" again?", ", please?", ", do you remember?"])
        prefix = r.choice(ASK_PREFIX)
        return prefix + (
            lower_first(q) if prefix and not prefix.endswith(". ") and not q.startswith("I ") else q
        )

    def answer(self):
        return self.fill(self.special[2] if self.special else "Your {a} is {v}.")


def other_fact(r):
    n = open_name(r)
    k = r.randrange(7)
    if k == 0:
        v = pick(CITIES)(r)
        return (
            f"{n} lives in {v}.",
            [f"Where does {n} live?", f"Which city does {n} live in?"],
            f"{n} lives in {v}.",
        )
    if k == 1:
        v = pick(JOBS)(r)
        return (
            f"{n} works as a {v}.",
            [f"What is {n}'s job?", f"What does {n} work as?"],
            f"{n} works as a {v}.",
        )
    if k == 2:
        v = pick(COLOURS)(r)
        return (
            f"{n}'s favourite colour is {v}.",
            [f"What is {n}'s favourite colour?"],
            f"{n}'s favourite colour is {v}.",
        )
    if k == 3:
        v = P.code(r)
        return f"{n}'s extension is {v}.", [f"What is {n}'s extension?"], f"{n}'s extension is {v}."
    if k == 4:
        c, o = r.choice(COLOURS), pick(OBJECTS)(r)
        return (
            f"The {c} box contains {article(o)} {o}.",
            [f"What is in the {c} box?", f"What does the {c} box contain?"],
            f"The {c} box contains {article(o)} {o}.",
        )
    if k == 5:
        v = pick(INSTRUMENTS)(r)
        return (
            f"{n} plays the {v}.",
            [f"Which instrument does {n} play?", f"What does {n} play?"],
            f"{n} plays the {v}.",
        )
    i, v = r.randint(1, 40), r.choice(FIRST_NAMES + OBJECTS)
    return (
        f"Room {i} belongs to {v}.",
        [f"Who or what does room {i} belong to?", f"Whose room is room {i}?"],
        f"Room {i} belongs to {v}.",
    )
