"""A conversation: which turn comes next, what it may refer to, which answers can be checked."""

from facts import ACKS, Fact, GENERIC_ASK, PLAIN_ACKS, SAY_PREFIX, SAY_SUFFIX, other_fact
from rules import SYSTEM_SHORT, rules_prompt
from stories import Story
from tool_turns import tool_turn
from counting import u_count
from units import (
    u_arithmetic,
    u_capital,
    u_define,
    u_element,
    u_repeat,
    u_small_talk,
    u_unknown,
)
from wording import lower_first, think

UNITS = [
    (u_define, 32),
    (u_element, 7),
    (u_capital, 5),
    (u_arithmetic, 14),
    (u_count, 14),
    (u_repeat, 11),
    (u_small_talk, 9),
    (u_unknown, 6),
]
UNIT_FNS = [u for u, w in UNITS for _ in range(w)]


class Conversation:
    def __init__(self, r, lex, chars):
        self.r, self.lex, self.messages, self.facts, self.others, self.checks = (
            r,
            lex,
            [],
            [],
            [],
            [],
        )
        self.size, self.chars, self.rules, self.stories, self.tools = 0, chars, [], [], []
        self.first_user, self.taken = None, set()

    def add(self, user, answer, why, kind=None):
        self.first_user = self.first_user or user
        self.messages += [
            {"role": "user", "content": user},
            {"role": "assistant", "content": answer, "why": why},
        ]
        self.size += len(user) + len(answer) + 60
        if kind:
            self.checks.append((kind, len(self.messages) - 1))

    def state_facts(self):
        r = self.r
        new = []
        for _ in range(r.choice([1, 1, 1, 2, 2, 3])):
            f = Fact(r, self.taken | {x.key for x in self.facts} | {x.key for x in new})
            new.append(f)
        said = [f.say(r) for f in new]
        prefix = r.choice(SAY_PREFIX)
        text = prefix + (
            lower_first(said[0]) if prefix.endswith(": ") or prefix.endswith(", ") else said[0]
        )
        if not text.startswith("I") and prefix and text[len(prefix) :].startswith("i "):
            text = prefix + said[0]
        if len(said) > 1 and said[0].endswith(".") and r.random() < 0.35:
            second = said.pop(1)
            keep = second.startswith(("I ", "I'm ")) or second.startswith(new[1].v)
            text = text.rstrip(".") + " and " + (second if keep else lower_first(second))
        for s in said[1:]:
            text += (
                (" " if text.rstrip()[-1] in ".!?" else ". ")
                + r.choice(["", "", "Also, ", "And "])
                + s
            )
        text += r.choice(SAY_SUFFIX) if text.rstrip()[-1] in ".!?" else ""
        if r.random() < 0.65:
            s = " ".join(f.answer() for f in new)
            ack = r.choice(ACKS).replace("{s}", lower_first(s)).replace("{S}", s)
        else:
            ack = r.choice(PLAIN_ACKS)
        # a fact may come together with a question
        if r.random() < 0.12:
            q, a, why = self.unit()(r, self.lex)
            text, ack = f"{text} {q}" if text.rstrip()[-1] in ".!?" else f"{text}. {q}", a
            self.add(text, ack, why)
        else:
            self.add(
                text,
                ack,
                think(
                    "The user tells me something to remember.",
                    "The user gives me new information.",
                    "I should confirm it: " + " ".join(f.answer() for f in new),
                ),
            )
        self.facts += new

    def state_others(self):
        r = self.r
        new = [other_fact(r) for _ in range(r.choice([1, 1, 2, 3, 4]))]
        subjects = [x[1][0] for x in self.others]
        new = [x for x in new if x[1][0] not in subjects]
        new = [x for i, x in enumerate(new) if x[1][0] not in [y[1][0] for y in new[:i]]]
        if new:
            self.add(
                " ".join(x[0] for x in new),
                r.choice(PLAIN_ACKS),
                think(
                    "I take note of this.",
                    "The user gives me new information.",
                    "I keep it in mind.",
                ),
            )
            self.others += new

    def correct(self):
        r = self.r
        f = r.choice(self.facts)
        old = f.v
        for _ in range(5):
            f.v = f.values(r)
            if f.v != old:
                break
        s = f.answer()
        q = r.choice(
            [
                "Actually, that has changed. {x}",
                "Correction: {x}",
                "Sorry, I made a mistake. {x}",
                "Update: {x}",
                "I changed it: {x}",
            ]
        ).replace("{x}", f.say(r) if f.special else f.fill("My {a} is now {v}."))
        self.add(
            q,
            r.choice(["Updated: ", "Okay, I have updated it. ", "Thanks for the correction. "]) + s,
            think("The user corrects a fact.", f"Before, it was {old}.", f"Now it is {f.v}."),
        )
        self.facts.remove(f)
        self.facts.append(f)

    def recall(self):
        r = self.r
        f = r.choice(self.facts)
        a = f.answer()
        if len(self.facts) > 1 and r.random() < 0.12:  # two questions in one
            f2 = r.choice([x for x in self.facts if x is not f])
            q, q2 = (
                x.fill(
                    r.choice(
                        [
                            t
                            for t in (x.special[1] if x.special else GENERIC_ASK)
                            if t[0].isupper() and t.endswith("?") and "." not in t
                        ]
                    )
                )
                for x in (f, f2)
            )
            both = f"{a} {f2.answer()}"
            self.add(
                q.rstrip("?") + " and " + lower_first(q2)
                if not q2.startswith("I ")
                else f"{q} {q2}",
                both,
                think(
                    f"The user told me: {lower_first(a)} {f2.answer()}",
                    "The user asks for two things said earlier.",
                    f"The values are {f.v} and {f2.v}.",
                ),
                "recall",
            )
            return
        self.add(
            f.ask(r),
            a,
            think(
                f"The user told me: {lower_first(a)}",
                f"The user asks for something said earlier: the {f.a}.",
                f"Earlier the value was given as {f.v}.",
                f"So the answer is {f.v}.",
            ),
            "recall",
        )

    def recall_other(self):
        _, asks, a = self.r.choice(self.others)
        self.add(
            self.r.choice(asks),
            a,
            think(
                f"I was told: {a}", "This was said earlier in the conversation.", f"It said: {a}"
            ),
            "recall_other",
        )

    def recall_unknown(self):
        f = Fact(self.r, self.taken | {x.key for x in self.facts})
        a = (
            "You have not told me that yet."
            if f.special
            else f"You have not told me your {f.a} yet."
        )
        self.add(
            f.ask(self.r),
            a,
            think(
                "The user has not told me that.",
                f"I look for the {f.a} in the conversation.",
                "It was not mentioned, so I cannot know it.",
            ),
            "unknown_fact",
        )

    def recap(self):
        r = self.r
        facts = self.facts
        items = [lower_first(f.answer()).rstrip(".") for f in facts]
        text = (
            "You told me that "
            + (", ".join(items[:-1]) + " and " + items[-1] if len(items) > 1 else items[0])
            + "."
        )
        self.add(
            r.choice(
                [
                    "What do you know about me?",
                    "List everything I told you about myself.",
                    "What have I told you so far?",
                    "Repeat all the facts about me.",
                    "Summarize what you know about me.",
                ]
            ),
            text,
            think(
                f"There are {len(items)} facts.",
                "I collect the facts in the order in which they were given.",
                "The facts: " + "; ".join(items) + ".",
            ),
            "recap",
        )

    def ask_first(self):
        self.add(
            self.r.choice(
                [
                    "What was the first thing I said?",
                    "What was my first message?",
                    "How did I start this conversation?",
                ]
            ),
            f'Your first message was: "{self.first_user}"',
            think(
                "I look at the first message.",
                "The first user message is at the top.",
                "I quote it exactly.",
            ),
            "first_message",
        )

    def ask_last(self):
        last = [m for m in self.messages if m["role"] == "user"][-1]["content"]
        self.add(
            self.r.choice(
                [
                    "What did I just ask you?",
                    "What was my last message?",
                    "What did I say just now?",
                ]
            ),
            f'Your last message was: "{last}"',
            think("I look at the previous message.", "It is right above.", "I quote it exactly."),
            "last_message",
        )

    def use_tool(self):
        turn = tool_turn(self.r, self.tools)
        self.first_user = self.first_user or turn[0]["content"]
        self.messages += turn
        self.size += sum(len(m["content"]) for m in turn) + 180
        self.checks.append(("tool_call", len(self.messages) - 3))
        self.checks.append(("tool_answer", len(self.messages) - 1))

    def step(self):
        r = self.r
        k = r.random()
        user_facts = len(self.facts)
        if self.rules and k < 0.16:
            q, a = r.choice(self.rules)
            self.add(
                q,
                a,
                think(
                    f"My instructions answer this: {a}",
                    "The answer is in my instructions.",
                    f"There I find: {a}",
                ),
                "rule",
            )
        elif self.tools and k < 0.30:
            self.use_tool()
        elif user_facts < self.max_facts and k < 0.42 and r.random() < 0.6:
            self.state_facts()
        elif user_facts and k < 0.60:
            self.recall()
        elif k < 0.62 and len(self.others) < 12:
            self.state_others()
        elif self.others and k < 0.67:
            self.recall_other()
        elif user_facts and k < 0.69:
            self.correct()
        elif k < 0.705 and not self.rules:
            self.recall_unknown()
        elif 2 <= user_facts <= 6 and k < 0.72:
            self.recap()
        elif self.first_user and len(self.first_user) < 120 and k < 0.735:
            self.ask_first()
        elif (
            self.first_user
            and k < 0.74
            and len(self.messages[-2]["content"]) < 120
            and self.messages[-2]["role"] == "user"
        ):
            self.ask_last()
        elif k < 0.78:
            s = Story(r)
            self.add(
                s.prompt(r),
                s.text,
                think(
                    f"I tell a story about {s.v['name']} the {s.v['animal']}.",
                    f"The hero is {s.v['name']}, {s.v['art']} {s.v['adj']} {s.v['animal']}.",
                    f"A {s.v['colour']} {s.v['obj']} gets lost.",
                    f"{s.v['name2']} helps to find it.",
                ),
            )
            self.stories = [s]
        elif self.stories and k < 0.86:
            q, a = self.stories[-1].questions(r)
            self.add(
                q,
                a,
                think(
                    f"The story says: {a}",
                    "The question is about the story above.",
                    f"There I find: {a}",
                ),
                "story",
            )
        else:
            self.add(*self.unit()(r, self.lex))

    def unit(self):
        """Any unit, except those that a tool of this conversation would answer."""
        while True:
            u = self.r.choice(UNIT_FNS)
            if not (
                u is u_unknown
                and "get_weather" in self.tools
                or u is u_arithmetic
                and "calculator" in self.tools
            ):
                return u

    def build(self):
        r = self.r
        self.max_facts = (
            r.choice([0, 2, 4, 6, 8, 12]) if self.chars < 4000 else r.choice([3, 6, 10, 16])
        )
        k = r.random()
        if k < 0.25 and self.chars > 600:
            budget = r.choice([300, 600, 1000, 2000, 4000, 7000])
            text, self.rules, self.taken = rules_prompt(r, min(budget, self.chars * 2 // 3))
            self.messages.append({"role": "system", "content": text})
            self.size += len(text)
        elif k < 0.5:
            self.messages.append({"role": "system", "content": r.choice(SYSTEM_SHORT)})
        if r.random() < 0.14:
            self.tools = r.choice(
                [
                    ["get_weather"],
                    ["calculator"],
                    ["get_weather", "calculator"],
                    ["get_weather", "calculator"],
                ]
            )
        while True:
            self.step()
            if self.size >= self.chars:
                break
        if self.facts and r.random() < 0.5 and self.chars > 1500:
            self.recall()
