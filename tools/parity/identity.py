"""With --exact every road to a prompt gives the same bits: cold, warm, restored, released and read
again, with the cache and without, alone and beside other parked chats.
"""
from .release import HostMemory, release_everything
from .world import Mismatch

SYSTEM_TOKENS = (300, 330, 360)
ANSWER_TOKENS = 32


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
