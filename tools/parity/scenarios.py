"""The scenarios that one engine plays over its pipes. Each says what it protects; the figures that the
specification fixes by itself stand here as literals, everything else comes from the books.
"""
from . import gguf, steering_file
from .prompts import Chat, asks, rules
from .world import MIB, Unusable

SYSTEM_TOKENS = (560, 600, 640)  # of chats A, B, C: three pages each, no two alike
ROOT_TOKENS = 2100  # above the default of --prompt-cache-root
CHATS_OF_ROOT = 10
TURNS_OF_FLOOD = 9


def mib_up(size):
    return -(-size // MIB)


def image(world, said, checkpoints=1):
    """Bytes of a parked conversation after one turn: pages, tail, turn checkpoint."""
    return world.geometry.image_bytes(said.rows, checkpoints)


def budget_for_one(fits, never_together):
    """MiB in which each of `fits` fits, and no pair of `never_together`. Sizes in bytes."""
    budget = mib_up(max(fits))
    for a, b in never_together:
        if budget * MIB >= a + b:
            raise Unusable(f"no whole MiB holds {max(fits)} bytes and not {a} + {b}: the model's states are too small")
    return budget


def reuse(world):
    """Two chats in turn: the one that comes back is restored, with the state of one that never left."""
    chat_a, chat_b = world.chat(0, SYSTEM_TOKENS[0]), world.chat(1, SYSTEM_TOKENS[1])
    with world.baseline() as base:
        a = base.open("A", chat_a)
        a_next = base.follow("A+", a, 1)
        a_again = base.again("A+ again", a_next)
    with world.baseline() as base:
        b = base.open("B", chat_b)
        b_again = base.again("B again", b)
    miss, hit = {"switched": 1, "restored": 0}, {"switched": 1, "restored": 1}
    with world.candidate(world.settings.cache_mib) as play:
        play.step("A", a, {**miss, "parked": 0})
        play.step("B", b, {**miss, "parked": 1})
        reply = play.step("A+", a_next, {**hit, "source": "parked"})
        play.require("reused tokens of A+, at least those of A", True, reply.done.reused >= len(a.prompt))
        play.step("B-again", b_again, hit)
        play.step("A+-checkpoint", a_again, {**hit, "source": "parked_checkpoint"})
        play.totals(park=4, skip=0, restore=3, evictions=0, lost=0, superseded=0)


def exchange(world):
    """Room for one snapshot: at an exchange the incoming one stays, the outgoing one is lost."""
    chat_a, chat_b = world.chat(0, SYSTEM_TOKENS[0]), world.chat(1, SYSTEM_TOKENS[1])
    with world.baseline() as base:
        a = base.open("A", chat_a)
        a_next = base.follow("A+", a, 1)
        a_again = base.again("A+ again", a_next)
    with world.baseline() as base:
        b = base.open("B", chat_b)
    size_a, size_b, size_next = image(world, a), image(world, b), image(world, a_next, 2)
    budget = budget_for_one([size_a, size_b, size_next], [(size_a, size_b)])
    lost = {"parked_now": 0, "park_skip": "budget"}
    with world.candidate(budget) as play:
        play.step("A", a)
        play.step("B", b, {"parked_now": 1, "lost": 0})
        play.step("A+", a_next, {"switched": 1, "restored": 1, "lost": 1, **lost})
        play.step("B-again", b, {"switched": 1, "restored": 0, "reused": 0, "parked_now": 1, "miss": "budget"})
        play.step("A+-checkpoint", a_again, {"switched": 1, "restored": 1, "lost": 2, **lost})
        play.totals(park=2, skip=2, lost=2, evictions=0)


def three_chats(world):
    """-> what A, B and C answer, each on an engine of its own."""
    said = []
    for number, name in enumerate("ABC"):
        with world.baseline() as base:
            said.append(base.open(name, world.chat(number, SYSTEM_TOKENS[number])))
    return said


def play_three(play, said, each=None, last=None):
    """A, B, C, A again: every one of them is read from token 0."""
    for name, truth in zip(("A", "B", "C", "A again"), (*said, said[0])):
        expect = {"switched": 1, "restored": 0, "reused": 0}
        expect.update(each or {} if name != "A" else {})
        expect.update(last or {} if name == "A again" else {})
        play.step(name, truth, expect)


def pressure(world):
    """Room for each chat but for no two: the oldest is evicted, and what is gone is read again."""
    said = three_chats(world)
    sizes = [image(world, each) for each in said]
    budget = budget_for_one(sizes, [(sizes[0], sizes[1]), (sizes[1], sizes[2]), (sizes[2], sizes[0])])
    with world.candidate(budget) as play:
        play_three(play, said, {"parked_now": 1, "parked": 1}, {"miss": "evicted"})
        play.totals(park=3, skip=0, evict=2, evictions=2)


def oversized(world):
    """A snapshot larger than the whole budget evicts nothing and is not parked."""
    said = three_chats(world)
    budget = 1
    if min(image(world, each) for each in said) <= budget * MIB:
        raise Unusable("the model's states fit 1 MiB: nothing is oversized")
    with world.candidate(budget) as play:
        play_three(play, said, {"parked_now": 0, "parked": 0, "park_skip": "too_large"}, {"miss": "budget"})
        play.totals(park=0, skip=3, evictions=0)


def total_memory_mib():
    with open("/proc/meminfo") as meminfo:
        return next(int(line.split()[1]) // 1024 for line in meminfo if line.startswith("MemTotal:"))


def admission(world):
    """Below the floor of free memory nothing is parked."""
    said = three_chats(world)
    with world.candidate(world.settings.cache_mib, floor_mib=total_memory_mib()) as play:
        play.books.floor_blocks = True
        play_three(play, said, {"parked_now": 0, "parked": 0, "park_skip": "floor"}, {"miss": "floor"})
        play.totals(park=0, skip=3, evictions=0)


def root(world):
    """Ten chats over one system prompt hold its full pages and its checkpoint once."""
    system = rules("shared", ROOT_TOKENS, world.vocabulary)
    with world.baseline() as base:
        said = [base.open(f"chat {n + 1}", Chat(world.vocabulary, system, asks(n))) for n in range(CHATS_OF_ROOT)]
    with world.baseline() as base:
        other = base.open("unrelated", world.chat(CHATS_OF_ROOT, SYSTEM_TOKENS[0]))
    geometry, length = world.geometry, said[0].root
    shared_pages = length // geometry.page_tokens
    with world.candidate(world.settings.cache_mib, slots=CHATS_OF_ROOT) as play:
        for n, truth in enumerate(said):
            expect = {"switched": 1, "restored": 0, "parked": n}
            if n:
                expect.update({"reused": length, "source": "root"} if geometry.hybrid else {})
            play.step(truth.name, truth, expect)
        own = sum((geometry.pages(each.rows) - shared_pages) * geometry.page_bytes + 2 * geometry.state_bytes
                  for each in said)
        shared = shared_pages * geometry.page_bytes + geometry.state_bytes
        play.step("unrelated", other, {"switched": 1, "restored": 0, "reused": 0, "parked": CHATS_OF_ROOT,
                                       "bytes": shared + own})
        play.totals(park=CHATS_OF_ROOT, skip=0, evictions=0)


def flood(world):
    """Many turns of one chat do not push out another."""
    with world.baseline() as base:
        a = base.open("A", world.chat(0, SYSTEM_TOKENS[0]))
        a_again = base.again("A again", a)
    with world.baseline() as base:
        turns = [base.open("B1", world.chat(1, SYSTEM_TOKENS[1]))]
        for n in range(1, TURNS_OF_FLOOD):
            turns.append(base.follow(f"B{n + 1}", turns[-1], n))
    with world.candidate(world.settings.cache_mib) as play:
        play.step("A", a)
        for n, truth in enumerate(turns):
            play.step(truth.name, truth, {"switched": int(n == 0), "restored": 0, "parked": 1})
        play.step("A again", a_again, {"switched": 1, "restored": 1})
        play.totals(superseded=0, evictions=0, parked=1, park=2)


def supersede(world):
    """An older turn of a chat does not stay beside the newer one."""
    with world.baseline() as base:
        c = [base.open("C1", world.chat(2, SYSTEM_TOKENS[2]))]
        c.append(base.follow("C2", c[0], 1))
        c.append(base.follow("C3", c[1], 2))
        c2_again = base.again("C2 again", c[1])
        c3_again = base.again("C3 again", c[2])
    with world.baseline() as base:
        a = base.open("A", world.chat(0, SYSTEM_TOKENS[0]))
    on = {"switched": 0, "restored": 0}
    with world.candidate(world.settings.cache_mib) as play:
        play.step("C1", c[0])
        play.step("C2", c[1], on)
        play.step("C3", c[2], on)
        play.step("C2 again", c2_again, {**on, "parked": 1})
        play.step("C3 again", c3_again, {"switched": 1, "restored": 1, "superseded": 1, "parked": 0})
        play.step("A", a, {"switched": 1, "restored": 0})
        play.totals(superseded=1, parked=1, evictions=0)


def steering(world):
    """A changed steering mode is a switch; the mode before it is still there."""
    path = f"{world.folder.name}/direction.gguf"
    metadata = gguf.read_metadata(world.settings.model)
    steering_file.write(path, metadata)
    flag = ("--control-vector", f"wind={path}")
    on, off = {"steer": "wind"}, {"steer": "off"}
    with world.baseline(*flag) as base:
        a = base.open("A", world.chat(0, SYSTEM_TOKENS[0]), **off)
        a_next = base.follow("A+", a, 1, **off)
    with world.baseline(*flag) as base:
        steered = base.ask("A+ steered", a.chat, a_next.prompt, 1, checked=False, **on)
    if steered.figures()["logits_sha256"] == a_next.figures()["logits_sha256"]:
        raise Unusable("the direction changes nothing: the engine does not add it")
    with world.candidate(world.settings.cache_mib, flags=flag) as play:
        play.step("A", a, {"switched": 1, "restored": 0})
        play.step("A+ steered", steered, {"switched": 1, "restored": 0, "reused": 0, "miss": "steering"}, checked=False)
        play.step("A+", a_next, {"switched": 1, "restored": 1, "source": "parked"})
        play.totals(park=2, restore=1, evictions=0)
