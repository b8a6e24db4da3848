"""Thinking through the server: clients send replies back without their thinking, and chats must go on.

Turn 2 is a continuation, turn 3 after a side request a hit, another level a missed switch; with a
system block and without.
"""
from . import engine
from .server import Server, ServerFailed
from .world import FLOOR_MIB, Mismatch, Unusable

ON = {"switched": 0, "restored": 0}
HIT = {"switched": 1, "restored": 1}
MISS = {"switched": 1, "restored": 0}
SYSTEM = {"role": "system", "content": "You are a helpful assistant."}


def user(text):
    return {"role": "user", "content": text}


class Talk:
    """The requests of one run, on a server with the cache or without it."""

    def __init__(self, server, system, first, other):
        self.server, self.first, self.other = server, first, other
        self.messages, self.replies = ([SYSTEM] if system else []), []

    def ask(self, name, messages, level):
        message, done = self.server.chat(messages, **level)
        self.replies.append((name, message, done))
        return message

    def turn(self, number, text):
        self.messages.append(user(text))
        message = self.ask(f"turn {number}", self.messages, self.first)
        self.messages.append({"role": "assistant", "content": message["content"]})

    def play(self, side):
        """`side`: with the side request before turn 3, which the one without the cache must not have."""
        self.turn(1, "What is 23 times 4?")
        self.turn(2, "What is an otter?")
        if side:
            self.ask("side request", [user("Hello!")], {})
        self.turn(3, "What is 12 plus 30?")
        self.ask("changed level", self.messages[:-1], self.other)
        return self.replies


def wanted(replies):
    """{step: figures}. Turn 3 and the changed level are one prompt but for the level."""
    return {"turn 1": {**MISS, "reused": 0}, "turn 2": ON, "side request": MISS, "turn 3": HIT,
            "changed level": {**MISS, "miss": "level"}}


def check(world, block, replies, truths):
    texts = {name: message for name, message, _ in truths}
    for name, message, done in replies:
        figures, problems = done.figures(), []
        for key, value in wanted(replies)[name].items():
            if figures.get(key) != value:
                problems.append(f"{key}: expected {value}, came {figures.get(key)}")
        if name in ("turn 2", "turn 3") and figures["reused"] == 0:
            problems.append("reused: expected more than 0, came 0")
        for part in ("content", "reasoning_content"):
            if name in texts and texts[name].get(part) != message.get(part):
                problems.append(f"{part}: expected {texts[name].get(part)!r}, came {message.get(part)!r}")
        shown = " ".join(f"{key}={figures.get(key)}" for key in ("reused", "source", "miss", "switched", "restored"))
        world.say(f"{name:<16} {'WRONG' if problems else 'ok   '} {block}; {shown}; {message.get('content')!r}")
        for problem in problems:
            world.say(f"{'':<16}   {problem}")
        if problems:
            raise Mismatch()


def thinking(world):
    settings = world.settings
    if not settings.server:
        raise Unusable("the scenario thinking needs --server (strata-serve)")
    blocks = (("system block", True, {"reasoning_effort": "low"}, {"reasoning_effort": "high"}),
              ("no system block", False, {"enable_thinking": True}, {"reasoning_effort": "high"}))
    flags = ["--conversation-cache-mib", str(settings.cache_mib), "--conversation-cache-min-free-mib", str(FLOOR_MIB)]
    for block, system, first, other in blocks:
        runs = []
        for more, side in ((["--conversation-cache-mib", "0"], False), (flags, True)):
            try:
                with Server(settings.server, settings.program, settings.model, world.folder.name,
                            [*settings.flags, *more]) as server:
                    runs.append(Talk(server, system, first, other).play(side))
            except ServerFailed as fault:
                raise engine.EngineDied(str(fault), fault.status) from None
        check(world, block, runs[1], runs[0])
