"""Memory pressure by command and while idle, with a file in place of the system's reading of free memory:
what is released is read again, what is pinned or live is still there, and each answers as itself.
"""
import os
import re
import time

from .world import FLOOR_MIB

PLENTY_MIB = 1 << 20
IDLE_CHECK_S = 2.0  # STRATA_CONV_PRESSURE_MS
PATIENCE_S = 10.0  # for a busy machine, where a scripted reading is the subject and not the time
CHATS = 4
SYSTEM_TOKENS = 320
# One event on stderr, in exactly this form.
EVENT = re.compile(r"conversation cache: RAM below the floor: released (?P<dialogs>\d+) dialogs, (?P<mib>\d+) MiB "
                   r"\(dropped\) in (?P<ms>\d+) ms; (?P<where>request|idle|window|command): (?P<before>\d+) -> "
                   r"(?P<after>\d+) MiB available, floor (?P<floor>\d+) MiB \+ (?P<more>\d+); parked=(?P<parked>\d+)")
BEGINNING = "RAM below the floor"


class HostMemory:
    """The file that replaces the system's reading of free memory: one number, MiB."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "available-mib")
        self.write(PLENTY_MIB)

    def write(self, mib):
        with open(self.path + ".next", "w") as file:
            file.write(f"{mib}\n")
        os.replace(self.path + ".next", self.path)  # a reader sees the old number or the new one


def release_everything(play, memory):
    """Presses until nothing but pinned entries is parked, then gives the memory back."""
    parked = len(play.books.entries)
    gone = play.books.release_all()
    memory.write(FLOOR_MIB // 2)
    event, conv = play.process.trim()
    memory.write(PLENTY_MIB)
    play.compare("released_dialogs of PRESSURE", gone, event.number("released_dialogs"))
    play.compare("parked of PRESSURE", parked - gone, event.number("parked"))
    play.compare("where of PRESSURE", "command", event.get("where"))
    play.compare("floor_mib of PRESSURE", FLOOR_MIB, event.number("floor_mib"))
    play.compare("CONV release events", gone, sum(e.fields[0] == "release" for e in conv))
    play.settle("release", f"{gone} of {parked} parked conversations")


def event_lines(process, since=0.0):
    """-> [(time, the match, or None where the form is another)] of the release lines so far."""
    return [(at, EVENT.search(text)) for at, text in list(process.errors) if BEGINNING in text and at >= since]


def wait_for_event(process, since, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = event_lines(process, since)
        if found:
            return found[0]
        time.sleep(0.02)
    return None


def pressed_while_idle(play, memory):
    """The file says there is too little: the idle check releases all but the pinned entry."""
    parked, gone = len(play.books.entries), play.books.release_all()
    began = time.monotonic()
    memory.write(FLOOR_MIB // 2)
    found = wait_for_event(play.process, began, IDLE_CHECK_S + PATIENCE_S)
    memory.write(PLENTY_MIB)
    line = found[1] if found else None
    play.compare("a release line of the known form", True, line is not None)
    if line:
        wanted = {"dialogs": gone, "where": "idle", "before": FLOOR_MIB // 2, "floor": FLOOR_MIB, "parked": parked - gone}
        for name, value in wanted.items():
            play.compare(f"{name} of the release line", str(value), line.group(name))
    play.settle("release", f"{gone} of {parked} parked conversations while idle")


def release(world):
    """Released chats are read again and pinned ones restored; every one answers with its own codeword."""
    chats = [world.chat(n, SYSTEM_TOKENS + 20 * n) for n in range(CHATS)]
    first, later, cold = [], [], []
    for n, chat in enumerate(chats):
        with world.baseline() as base:
            first.append(base.open(f"chat {n + 1}", chat))
            later.append(base.follow(f"chat {n + 1}+", first[-1], 1))
        with world.baseline() as base:
            cold.append(base.ask(f"chat {n + 1}+ cold", chat, later[-1].prompt, 1))
    memory = HostMemory(world.folder.name)
    with world.candidate(world.settings.cache_mib, flags=("--host-memory-file", memory.path)) as play:
        for truth in first:
            play.step(truth.name, truth)
        pinned = play.books.entries[-1]
        row = next((r for r in play.process.cache_list()[0] if r.number("tokens") == len(pinned.ids)), None)
        play.require("CACHE list has chat 3", True, row is not None)
        pinned.pinned = True
        play.process.cache_list("pin", entry=row.get("entry"))
        pressed_while_idle(play, memory)
        pinned.pinned = False
        play.process.cache_list("unpin", entry=row.get("entry"))
        play.step("chat 4+", later[3], {"switched": 0})
        play.step("chat 3+", later[2], {"switched": 1, "restored": 1})
        for n in (0, 1):
            play.step(f"chat {n + 1}+", cold[n], {"switched": 1, "restored": 0, "miss": "released", "released": 2})
