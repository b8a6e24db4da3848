"""Single-turn units: question, answer and reasoning that need nothing from earlier turns."""

import pools as P
from pools import (
    ADJECTIVES,
    ANIMALS,
    CAPITALS,
    CITIES,
    COLOURS,
    FIRST_NAMES,
    OBJECTS,
    SYLLABLE_A,
    SYLLABLE_B,
    SYLLABLE_C,
    invented,
    open_word,
    pseudo_word,
    spoken,
)
from wording import article, think, upper_first

POS_NAME = {"n": "noun", "v": "verb", "a": "adjective"}


def definition_text(entry):
    word, pos, gloss, _ = entry
    if pos == "v":
        return (
            f"To {word} means to {gloss}."
            if not gloss.startswith(("be ", "have "))
            else f"To {word} means to {gloss}."
        )
    if pos == "a":
        return f"{upper_first(word)} (adjective): {gloss}."
    return f"{upper_first(word)}: {gloss}."


def u_define(r, lex):
    words = lex["words"]
    entry = words[min(int(r.random() ** 1.6 * len(words)), len(words) - 1)]
    word, pos, gloss, example = entry
    art = article(word)
    asks = [
        f"What does {word} mean?",
        f"Define {word}.",
        f"What does the word '{word}' mean?",
        f"define {word}",
        f"Explain the word {word}.",
        f"What is the meaning of {word}?",
        f"Can you define {word}?",
        f"Give me a definition of {word}.",
        f'What does "{word}" mean?',
    ]
    if pos == "n":
        asks += [f"What is {art} {word}?"] * 5 + [
            f"What is {word}?",
            f"what is {art} {word}",
            f"Tell me what {art} {word} is.",
            f"What's {art} {word}?",
            f"Can you tell me what {art} {word} is?",
            f"Explain what {art} {word} is.",
        ]
    if pos == "v":
        asks += [f"What does it mean to {word}?"] * 3 + [f"What does to {word} mean?"]
    if pos == "a":
        asks += [f"What does it mean to be {word}?", f"What does {word} mean as an adjective?"]
    answer = definition_text(entry)
    if example and r.random() < 0.15:
        return (
            r.choice(
                [f"Define {word} and give an example.", f"What does {word} mean? Give an example."]
            ),
            f'{answer} Example: "{example}"',
            think(
                f"I define {word} and add an example.",
                f"The user wants the {POS_NAME[pos]} '{word}'.",
                "I recall its meaning and one example sentence.",
            ),
        )
    return (
        r.choice(asks),
        answer,
        think(
            f"The user asks what {word} means.",
            f"The word is '{word}', a {POS_NAME[pos]}.",
            f"Its meaning: {gloss}.",
            "A short definition is enough.",
        ),
    )


def u_element(r, lex):
    name, symbol, number, weight, _note = r.choice(lex["elements"][:103])
    q, a = r.choice(
        [
            (
                f"What is the chemical symbol of {name}?",
                f"The chemical symbol of {name} is {symbol}.",
            ),
            (f"Which element has the symbol {symbol}?", f"{symbol} is the symbol of {name}."),
            (f"What is the atomic number of {name}?", f"The atomic number of {name} is {number}."),
            (
                f"Which element has atomic number {number}?",
                f"The element with atomic number {number} is {name}.",
            ),
            (
                f"What is the atomic weight of {name}?",
                f"The atomic weight of {name} is about {weight}.",
            ),
            (
                f"Tell me about the element {name}.",
                f"{upper_first(name)} is a chemical element with the symbol {symbol} and atomic number {number}. Its atomic weight is about {weight}.",
            ),
            (
                f"What is {name}?",
                f"{upper_first(name)} is a chemical element with the symbol {symbol} and atomic number {number}. Its atomic weight is about {weight}.",
            ),
        ]
    )
    return (
        q,
        a,
        think(
            f"This is about {name}.",
            f"The question is about a chemical element: {name}.",
            f"Its symbol is {symbol} and its atomic number is {number}.",
        ),
    )


def u_capital(r, lex):
    country, city = (spoken(x) for x in r.choice(CAPITALS).split(":"))
    if r.random() < 0.75:
        q = r.choice(
            [
                f"What is the capital of {country}?",
                f"Which city is the capital of {country}?",
                f"Name the capital of {country}.",
                f"capital of {country}?",
            ]
        )
        a = f"The capital of {country} is {city}."
    else:
        q = r.choice(
            [f"{city} is the capital of which country?", f"Of which country is {city} the capital?"]
        )
        a = f"{city} is the capital of {country}."
    return (
        q,
        a,
        think(
            f"The capital of {country} is {city}.",
            f"The user asks about the capital of {country}.",
            f"That city is {city}.",
        ),
    )


def u_arithmetic(r, lex):
    k = r.random()
    if k < 0.4:
        hi = r.choice([10, 20, 100, 100, 1000])
        x, y = r.randint(0, hi), r.randint(0, hi)
        res, op, word = x + y, "+", "plus"
        steps = [f"I need to add {x} and {y}.", f"{x} + {y} = {res}."]
        if hi == 100 and x > 9 and y > 9:
            steps = [
                f"I add the tens and the ones of {x} and {y}.",
                f"Tens: {x // 10 * 10} + {y // 10 * 10} = {x // 10 * 10 + y // 10 * 10}.",
                f"Ones: {x % 10} + {y % 10} = {x % 10 + y % 10}.",
                f"Together: {x // 10 * 10 + y // 10 * 10} + {x % 10 + y % 10} = {res}.",
            ]
    elif k < 0.7:
        hi = r.choice([10, 20, 100, 100, 1000])
        x, y = sorted((r.randint(0, hi), r.randint(0, hi)), reverse=True)
        res, op, word = x - y, "-", "minus"
        steps = [f"I need to subtract {y} from {x}.", f"{x} - {y} = {res}."]
    else:
        x, y = r.choice(
            [(r.randint(0, 12), r.randint(0, 12)), (r.randint(10, 99), r.randint(2, 9))]
        )
        res, op, word = x * y, r.choice(["*", "x"]), "times"
        steps = [f"I need to multiply {x} by {y}.", f"{x} times {y} is {res}."]
        if x > 12:
            steps = [
                f"I split {x} into {x // 10 * 10} and {x % 10}.",
                f"{x // 10 * 10} times {y} is {x // 10 * 10 * y}, and {x % 10} times {y} is {x % 10 * y}.",
                f"The sum is {x // 10 * 10 * y} + {x % 10 * y} = {res}.",
            ]
    q = r.choice(
        [
            f"What is {x} {word} {y}?",
            f"{x} {op} {y} = ?",
            f"What is {x} {op} {y}?",
            f"Calculate {x} {op} {y}.",
            f"How much is {x} {word} {y}?",
            f"{x}{op}{y}",
            f"Please compute {x} {word} {y}.",
        ]
    )
    a = r.choice([f"{x} {word} {y} is {res}."])
    return q, a, think(f"{x} {op} {y} = {res}.", *steps)


def u_repeat(r, lex):
    k = r.random()
    if k < 0.3:
        text = " ".join(r.sample(OBJECTS + ANIMALS + COLOURS + ADJECTIVES, r.randint(2, 7)))
    elif k < 0.6:
        text = " ".join(open_word(r) for _ in range(r.randint(1, 9)))
    elif k < 0.8:
        text = P.codename(r) + " " + P.code(r)
    else:
        text = upper_first(r.choice(lex["words"])[2])
    q = r.choice(
        [f"Repeat after me: {text}", f"Say this back to me: {text}", f"Please repeat: {text}"]
    )
    if r.random() < 0.25:
        return (
            f"Write this in capital letters: {text}",
            text.upper(),
            think(
                "I write it in capitals.",
                "The user wants capital letters.",
                "I change nothing else.",
            ),
        )
    return (
        q,
        text,
        think("I repeat the text.", "The user wants the same text back.", "I change nothing."),
    )


SMALL_TALK = [
    (
        ["Hello!", "Hi!", "Hi there.", "Hello", "hi", "Hey", "Hello there!", "Good day."],
        ["Hello! How can I help you?", "Hi! What can I do for you?"],
    ),
    (["Good morning!", "Good morning."], ["Good morning! How can I help you today?"]),
    (["Good evening!", "Good evening."], ["Good evening! What can I do for you?"]),
    (
        ["How are you?", "How are you doing?", "How is it going?", "How are you today?"],
        ["I am doing well, thank you. How can I help you?"],
    ),
    (
        [
            "Thanks!",
            "Thank you.",
            "Thank you very much!",
            "thanks",
            "Great, thanks.",
            "Perfect, thank you.",
        ],
        ["You are welcome!", "You are welcome. Anything else?"],
    ),
    (
        ["Goodbye!", "Bye!", "See you later.", "bye", "Good night."],
        ["Goodbye! It was nice talking to you."],
    ),
    (
        [
            "Who are you?",
            "What are you?",
            "Introduce yourself.",
            "Tell me about yourself.",
            "What model are you?",
            "who are you",
            "Describe yourself.",
        ],
        [
            "I am the Strata demo model, a small hybrid model trained for demonstration. I can remember what you tell me in this conversation, explain words, do simple arithmetic and tell short stories."
        ],
    ),
    (
        ["What is your name?", "What's your name?", "Do you have a name?", "What are you called?"],
        ["I am the Strata demo model."],
    ),
    (
        [
            "What can you do?",
            "Help",
            "help",
            "How can you help me?",
            "What are your skills?",
            "What do you know?",
            "Can you help me?",
        ],
        [
            "I can remember facts you tell me and recall them later, define words, name chemical symbols and capitals, do simple arithmetic, sort and spell words, and tell short stories."
        ],
    ),
    (
        ["How big are you?", "How many parameters do you have?", "Are you a large model?"],
        ["I am very small: about 24 million parameters in 8 layers."],
    ),
    (
        [
            "How do you work?",
            "What is your architecture?",
            "What is a hybrid model?",
            "What kind of model are you?",
        ],
        [
            "I am a hybrid model: six of my eight layers use a gated delta rule with a fixed-size state, and two use full attention."
        ],
    ),
    (
        ["Who made you?", "Who trained you?", "Who created you?"],
        ["I was trained from scratch as a demonstration model for the Strata engine."],
    ),
    (
        ["Are you human?", "Are you a robot?", "Are you a person?", "Are you real?"],
        ["No, I am a small language model, not a person."],
    ),
    (
        ["Do you have feelings?", "Are you happy?", "Are you sad?"],
        ["I am a language model and have no feelings, but I am glad to help."],
    ),
    (
        ["What do you remember?", "Do you have a memory?", "Can you remember things?"],
        [
            "I remember everything that was said in this conversation, but nothing from other conversations."
        ],
    ),
    (
        ["Tell me a joke.", "Do you know a joke?", "Make me laugh."],
        [
            "Why did the book go to the doctor? It had lost its cover.",
            "What did the lamp say to the candle? You look burnt out.",
            "Why was the clock always tired? It worked around the clock.",
        ],
    ),
    (
        ["Okay.", "OK", "I see.", "Interesting.", "Cool.", "Nice.", "Good."],
        ["Good. What would you like to do next?", "All right. What else can I do for you?"],
    ),
    (
        ["Let us talk about something else.", "Change of topic.", "Let's do something different."],
        ["Sure. What would you like to talk about?"],
    ),
]
UNKNOWN = [
    (
        [
            "What is the weather like today?",
            "What is the weather in {c}?",
            "Will it rain in {c} tomorrow?",
        ],
        "I cannot check the weather, because I have no weather tool here.",
    ),
    (
        ["What time is it?", "What is the date today?", "Which day is today?"],
        "I cannot know the current date or time.",
    ),
    (
        [
            "Who won the election in {y}?",
            "What is in the news today?",
            "Who won the football match yesterday?",
            "What happened in {c} yesterday?",
        ],
        "I do not know about news or current events.",
    ),
    (
        [
            "How much does a ticket to {c} cost?",
            "What is the price of gold today?",
            "What is the stock price of {i}?",
        ],
        "I cannot look up prices.",
    ),
    (
        [
            "Can you call {n} for me?",
            "Send an email to {n}.",
            "Book a table for two in {c}.",
            "Order a pizza for me.",
            "Open the door.",
        ],
        "I cannot do that. I can only answer in text here.",
    ),
    (
        [
            "What is the phone number of {n}?",
            "Where is {n} right now?",
            "What did {n} eat yesterday?",
            "What is {n} thinking?",
        ],
        "I do not know that. You have not told me about it.",
    ),
    (
        [
            "Who is {i} {i2}?",
            "What is {i}?",
            "Tell me about {i}.",
            "What does {i} mean?",
            "Define {i}.",
        ],
        "I do not know {i}. I may not have learned about it.",
    ),
    (
        [
            "What will happen next year?",
            "Who will win the next race?",
            "Predict the lottery numbers.",
        ],
        "I cannot predict the future.",
    ),
]


def u_small_talk(r, lex):
    asks, answers = r.choice(SMALL_TALK)
    return (
        r.choice(asks),
        r.choice(answers),
        think(
            "A friendly short answer fits.",
            "The user is making conversation.",
            "I answer politely and briefly.",
        ),
    )


def u_unknown(r, lex):
    asks, a = r.choice(UNKNOWN)
    v = {
        "{c}": r.choice(CITIES),
        "{y}": str(r.randint(2024, 2030)),
        "{i}": r.choice(
            [
                r.choice(SYLLABLE_A) + r.choice(SYLLABLE_B) + r.choice(SYLLABLE_C),
                pseudo_word(r).capitalize() + r.choice(SYLLABLE_C),
            ]
        ),
        "{i2}": invented(r),
        "{n}": r.choice(FIRST_NAMES),
    }
    q = r.choice(asks)
    for k, x in v.items():
        q, a = q.replace(k, x), a.replace(k, x)
    return (
        q,
        a,
        think(
            "I cannot know this.",
            "I have no tool and no knowledge for this question.",
            "I should say so honestly.",
        ),
    )
