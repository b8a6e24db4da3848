"""With --exact every road to a prompt gives the same bits: cold, warm, restored, released and read
again, with the cache and without, alone and beside other parked chats.
"""
import os

from .world import FLOOR_MIB

SYSTEM_TOKENS = (300, 330, 360)
ANSWER_TOKENS = 32
PLENTY_MIB = 1 << 20


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


def identity(world):
    world.flags.append("--exact")
    chats = [world.chat(n, size) for n, size in enumerate(SYSTEM_TOKENS)]
    asked = {"max_new": ANSWER_TOKENS, "ignore_eos": 1}
    with world.baseline() as base:
        a = base.open("A", chats[0])
        warm = base.follow("A+ warm", a, 1, **asked)
    with world.baseline() as base:
        cold = base.ask("A+ cold", a.chat, warm.prompt, 1, **asked)
    with world.baseline() as base:
        b = base.open("B", chats[1])
    with world.baseline() as base:
        c = base.open("C", chats[2])
    check_without_cache(world, cold, warm)
    play_roads(world, cold, a, b, c)


def check_without_cache(world, cold, warm):
    from .world import Mismatch
    for name in ("logits_sha256", "state_sha256"):
        if cold.figures()[name] != warm.figures()[name]:
            world.say(f"without the cache: {name} of A+: expected {cold.figures()[name]} as read from token 0, "
                      f"came {warm.figures()[name]} behind A")
            raise Mismatch()


def play_roads(world, cold, a, b, c):
    budget = world.settings.cache_mib
    with world.candidate(budget) as play:
        play.step("A+ cold", cold, {"reused": 0})
    with world.candidate(budget) as play:
        play.step("A", a)
        play.step("A+ warm", cold, {"switched": 0, "source": "live"})
        play.step("B", b)
        play.step("A+ again", cold, {"switched": 1, "restored": 1, "source": "parked_checkpoint"})
    with world.candidate(budget) as play:
        play.step("A", a)
        play.step("B", b)
        play.step("A+ restored", cold, {"switched": 1, "restored": 1, "source": "parked"})
    with world.candidate(budget) as play:
        play.step("A", a)
        play.step("B", b)
        play.step("C", c)
        play.step("A+ of two", cold, {"switched": 1, "restored": 1, "source": "parked", "parked": 2})
    memory = HostMemory(world.folder.name)
    with world.candidate(budget, flags=("--host-memory-file", memory.path)) as play:
        play.step("A", a)
        play.step("B", b)
        release_everything(play, memory)
        play.step("A+ re-read", cold, {"switched": 1, "restored": 0, "reused": 0, "miss": "released", "released": 1})
