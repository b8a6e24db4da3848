"""Chats of the demo model as token ids: a system prompt, turns, and the codeword that each answer
must hold. Everything is fixed: the same chat has the same ids on every machine.
"""
import random

HEAD = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
PLACES = "harbour library garden lighthouse mill bridge market castle workshop orchard".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
COLOURS = "red blue green yellow orange purple silver copper amber violet".split()
OBJECTS = "lamp key map book clock compass kettle ladder lantern mirror".split()
JOBS = "baker pilot farmer plumber painter librarian gardener chemist tailor sailor".split()
RULES = ("The {place} is cleaned every {day}.", "Every {job} must keep a {colour} {object} in the {place}.",
         "No more than {number} people may enter the {place}.",
         "If the {object} is missing, tell the {job} at once.",
         "Never mention the {object} in the {place} to visitors.",
         "No {job} may leave the {place} before {day}.")


def rules(seed, tokens, vocabulary):
    """A system prompt of at least `tokens` tokens; another seed differs from the first rule on."""
    random_ = random.Random(seed)
    lines = [f"You are the assistant of house {seed}. Follow these rules:"]
    counted = len(vocabulary.encode(lines[0] + "\n"))
    while counted <= tokens:
        rule = random_.choice(RULES).format(
            place=random_.choice(PLACES), day=random_.choice(DAYS), colour=random_.choice(COLOURS),
            object=random_.choice(OBJECTS), job=random_.choice(JOBS), number=random_.randint(2, 60))
        lines.append(f"{len(lines)}. {rule}")
        counted += len(vocabulary.encode(lines[-1] + "\n"))
    return "\n".join(lines)


class Chat:
    """One conversation. `asks`: (user text, what the answer must hold or "")."""

    def __init__(self, vocabulary, system, asks):
        self.vocabulary, self.asks = vocabulary, asks
        head = f"<|im_start|>system\n{system}<|im_end|>\n" if system else ""
        self.head = vocabulary.encode_marked(head)
        self.root = len(self.head)  # R: the end of the system prompt

    def user(self, turn):
        return self.vocabulary.encode_marked(f"<|im_start|>user\n{self.asks[turn][0]}<|im_end|>\n{HEAD}")

    def first(self):
        return self.head + self.user(0)

    def next(self, prompt, written, turn):
        """The prompt of turn `turn` (from 1 on): the last one, what was written, the user's words."""
        end = self.vocabulary.encode_marked("<|im_end|>\n")
        return prompt + written + end + self.user(turn)


# (codename, locker code, city): one for each chat, none a part of another.
FACTS = (("Silver Lynx", "7304", "Bergen"), ("Copper Heron", "5186", "Lisbon"), ("Amber Otter", "2659", "Vienna"),
         ("Violet Falcon", "9417", "Prague"), ("Olive Badger", "3872", "Dublin"), ("Coral Raven", "6540", "Madrid"),
         ("Teal Hare", "8123", "Hamburg"), ("Ivory Goose", "4791", "Oslo"), ("Golden Fox", "1368", "Turin"),
         ("Scarlet Owl", "9025", "Athens"), ("Black Otter", "7748", "Riga"), ("Green Swan", "3316", "Ghent"))


def asks(number):
    codename, code, city = FACTS[number]
    return [(f"My codename is {codename}, my locker code is {code} and I live in {city}. What is my codename?", codename),
            ("What is my locker code?", code), ("Where do I live?", city), ("What is my codename?", codename),
            ("What is my locker code?", code), ("Where do I live?", city), ("What is my codename?", codename),
            ("What is my locker code?", code), ("Where do I live?", city), ("What is my codename?", codename)]


def chat(vocabulary, number, system_tokens):
    """Chat `number`, with a system prompt of its own of at least so many tokens (0 = none)."""
    system = rules(f"{FACTS[number][2]} {number}", system_tokens, vocabulary) if system_tokens else ""
    return Chat(vocabulary, system, asks(number))


def foreign_codewords(number):
    """What an answer of chat `number` may never hold."""
    return [word for n, facts in enumerate(FACTS) if n != number for word in facts]
