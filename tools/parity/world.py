"""What a scenario plays on: baseline engines without the cache, one candidate with it, and the checks
between them. Each step is compared with the books (ledger.py) and with the baseline's answer.
"""
import contextlib
import os
import tempfile

from . import engine, ledger, prompts, tokens

MIB = 1 << 20
WRITTEN_MAX = 48  # tokens; the demo model's answers end long before
MEMORY_MARGIN_BYTES = 64 * MIB  # what a cache may take beside its budget
FLOOR_MIB = 64  # of free memory, where the floor is not the subject: small machines run this, too


class Mismatch(Exception):
    """A scenario failed; everything about it has been printed."""


class Unusable(Exception):
    """The scenario cannot be played here: a bad option, engine or model."""


class Settings:
    def __init__(self, program, model, cache_mib=256, threads=None, server=None, kv=None):
        self.program, self.model, self.cache_mib, self.server = program, model, cache_mib, server
        self.flags = [*(["--threads", str(threads)] if threads else []), *(["--kv", kv] if kv else [])]
        for path in (program, model):
            if not os.path.isfile(path):
                raise Unusable(f"{path} is no file")
        try:
            self.vocabulary = tokens.load(model)
        except (ValueError, KeyError, OSError) as fault:
            raise Unusable(f"{model} cannot be used: {fault}") from None
        if self.vocabulary.turn_open is None:
            raise Unusable(f"{model} has no token that opens a turn")


class Said:
    """One request and what a baseline answered: the truth for every step that repeats it."""

    def __init__(self, name, chat, prompt, turn, names, reply, max_new):
        self.name, self.chat, self.prompt, self.turn, self.names = name, chat, prompt, turn, names
        self.max_new = max_new
        self.ids, self.done = reply.ids, reply.done
        self.rows = rows_of(prompt, reply)

    @property
    def root(self):
        return self.chat.root

    def figures(self):
        return self.done.figures()


def rows_of(prompt, reply):
    """Rows in the state afterwards: a token that ends nothing is read before the next one is chosen."""
    last_unread = 1 if reply.done.finish == "length" and reply.ids else 0
    return len(prompt) + len(reply.ids) - last_unread


class World:
    def __init__(self, settings, scenario, out):
        self.settings, self.scenario, self.out = settings, scenario, out
        self.vocabulary = settings.vocabulary
        self.geometry, self.peak_without = None, 0
        self.flags = list(settings.flags)
        self.folder = tempfile.TemporaryDirectory(prefix="strata-parity-")

    def close(self):
        self.folder.cleanup()

    def chat(self, number, system_tokens):
        return prompts.chat(self.vocabulary, number, system_tokens)

    def start(self, flags, environment=None):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("STRATA_")}
        return engine.Engine(self.settings.program, self.settings.model, [*self.flags, *flags],
                             {**clean, **(environment or {})})

    @contextlib.contextmanager
    def baseline(self, *flags):
        """An engine without the cache; what it says is the truth."""
        with self.start(list(flags)) as process:
            if self.geometry is None:
                self.geometry = ledger.Geometry(process.info, self.vocabulary.turn_open)
            yield Baseline(self, process)
            self.peak_without = max(self.peak_without, process.peak_bytes())

    @contextlib.contextmanager
    def candidate(self, budget_mib, slots=4, floor_mib=FLOOR_MIB, flags=(), environment=None):
        options = ["--conversation-cache-mib", str(budget_mib), "--conversation-cache-slots", str(slots),
                   "--conversation-cache-min-free-mib", str(floor_mib), *flags]
        with self.start(options, environment) as process:
            books = ledger.Ledger(self.geometry, budget_mib * MIB, slots)
            play = Candidate(self, process, books, budget_mib * MIB)
            play.require("conversation_cache_mib of INFO", budget_mib,
                         int(process.info.get("conversation_cache_mib", -1)))
            yield play
            play.finish()

    def say(self, text):
        print(f"{self.scenario:<10} {text}", file=self.out, flush=True)


class Baseline:
    def __init__(self, world, process):
        self.world, self.process = world, process

    def ask(self, name, chat, prompt, turn, max_new=WRITTEN_MAX, checked=True, **names):
        """`checked`: the answer must hold its codeword. -> Said."""
        reply = self.process.ask(prompt, chat.root, max_new, **names)
        said = Said(name, chat, prompt, turn, names, reply, max_new)
        problems = wrong_answer(self.world.vocabulary, said, reply) if checked else []
        if problems:
            self.world.say(f"{name:<16} baseline: " + "; ".join(problems))
            raise Mismatch()
        return said

    def open(self, name, chat, **names):
        return self.ask(name, chat, chat.first(), 0, **names)

    def follow(self, name, said, turn, **names):
        return self.ask(name, said.chat, said.chat.next(said.prompt, said.ids, turn), turn, **names)

    def again(self, name, said):
        return self.ask(name, said.chat, said.prompt, said.turn, said.max_new, True, **said.names)


def wrong_answer(vocabulary, said, reply):
    """An answer must be of its own conversation: its codeword, and nobody else's."""
    text = vocabulary.decode(reply.ids)
    codeword = said.chat.asks[said.turn][1]
    problems = []
    if codeword not in text:
        problems.append(f"the answer {text!r} does not hold the codeword {codeword!r}")
    own = " ".join(question for question, _ in said.chat.asks)
    foreign = [w for facts in prompts.FACTS for w in facts if w in text and w not in own]
    if foreign:
        problems.append(f"the answer {text!r} holds another conversation's {foreign}")
    return problems


def normalised(conv):
    """Kinds of a request's CONV events. A conversation lost at an exchange is a skip told twice."""
    kinds = []
    for each in conv:
        kind = "skip" if each == "lost" else each
        if kind != "skip" or "skip" not in kinds:
            kinds.append(kind)
    return sorted(kinds)


class Candidate:
    def __init__(self, world, process, books, budget_bytes):
        self.world, self.process, self.books, self.budget = world, process, books, budget_bytes
        self.counts = {"park": 0, "skip": 0, "restore": 0, "borrow": 0, "supersede": 0, "evict": 0}
        self.problems, self.last = [], {}

    # ---- comparing
    def compare(self, name, wanted, came):
        if wanted != came:
            self.problems.append(f"{name}: expected {wanted}, came {came}")

    def require(self, name, wanted, came):
        self.compare(name, wanted, came)
        self.settle(name, "")

    def settle(self, name, line):
        if not self.problems:
            if line:
                self.world.say(f"{name:<16} ok    {line}")
            return
        self.world.say(f"{name:<16} WRONG {line}")
        for problem in self.problems:
            self.world.say(f"{'':<16}   {problem}")
        raise Mismatch()

    # ---- one step
    def step(self, name, truth, expect=None, checked=True):
        """Plays `truth` again. `expect` are figures that the scenario fixes by itself; `checked`: the
        answer must hold its codeword."""
        reply = self.process.ask(truth.prompt, truth.root, truth.max_new, **truth.names)
        figures = reply.done.figures()
        books, conv = self.books.step(ledger.Request(
            truth.prompt, truth.root, truth.names.get("steer", ""), reply.ids, rows_of(truth.prompt, reply)))
        self.check_figures(figures, {**books, **(expect or {})})
        self.check_events(conv, reply.conv)
        self.check_output(truth, reply, figures)
        if checked:
            self.problems += wrong_answer(self.world.vocabulary, truth, reply)
        self.last = figures
        self.settle(name, describe(truth, figures, self.world.vocabulary.decode(reply.ids)))
        return reply

    def check_figures(self, came, wanted):
        if came.get("switched") is None:
            self.problems.append("fields 15-19: expected all, came none")
            return
        absent = {"parked_now": 0, "retained": 0, "superseded": 0, "lost": 0, "released": 0,
                  "park_skip": None, "miss": "none"}
        pool = int(self.process.info.get("device_pool_mib", 0))
        if came.get("source") == "device" and pool > 0 and wanted.get("source") in ("parked", "parked_checkpoint"):
            came = {**came, "source": wanted["source"]}  # where its bytes were is the device's affair
        for name in sorted({*wanted, "parked_now", "park_skip", "miss"}):
            self.compare(name, wanted.get(name, absent.get(name)), came.get(name, absent.get(name)))
        if came["bytes"] > self.budget:
            self.problems.append(f"bytes: expected at most the budget of {self.budget}, came {came['bytes']}")

    def check_events(self, wanted, came):
        kinds = [event.fields[0] for event in came]
        self.compare("CONV events", normalised([w["kind"] for w in wanted]), normalised(kinds))
        for kind in normalised(kinds):
            self.counts[kind] = self.counts.get(kind, 0) + 1
        park = next((w for w in wanted if w["kind"] == "park"), None)
        event = next((e for e in came if e.fields[0] == "park"), None)
        if park and event:
            geometry = self.books.geometry
            self.compare("tokens of CONV park", park["tokens"], event.number("tokens"))
            # Newly written are the dirty pages and the tail; other images were in host memory before.
            self.compare("bytes of CONV park", park["new_pages"] * geometry.page_bytes + geometry.state_bytes,
                         event.number("bytes"))
        reasons = {w["reason"] for w in wanted if "reason" in w}
        for each in came:
            if each.fields[0] in ("skip", "lost") and reasons:
                self.compare(f"reason of CONV {each.fields[0]}", *reasons, each.get("reason"))

    def check_output(self, truth, reply, figures):
        wanted = truth.figures()
        self.compare("ids", truth.ids, reply.ids)
        for name in ("finish", "logits_sha256", "state_sha256"):
            self.compare(name, wanted[name], figures.get(name))

    # ---- the end of a scenario
    def totals(self, **wanted):
        """Counts over the whole scenario, and figures of its last DONE."""
        for name, value in wanted.items():
            self.compare(f"{name} in all", value, self.counts.get(name, self.last.get(name, 0)))
        self.settle("totals", " ".join(f"{name}={value}" for name, value in wanted.items()))

    def finish(self):
        self.check_list()
        peak, limit = self.process.peak_bytes(), \
            self.world.peak_without + self.budget + MEMORY_MARGIN_BYTES
        if peak > limit:
            self.problems.append(f"resident memory: expected at most {limit >> 20} MiB "
                                 f"({self.world.peak_without >> 20} without the cache + {self.budget >> 20} + 64), "
                                 f"came {peak >> 20} MiB")
        self.compare("exit status after QUIT", 0, self.process.close())
        self.settle("end", f"peak resident {peak >> 20} MiB of at most {limit >> 20}")

    def check_list(self):
        """CACHE list against the books: who is parked, how large, and what dropping one gives back."""
        if "cache" not in self.process.words:
            self.problems.append(f"READY: expected the word cache, came {self.process.words}")
            return
        rows, end = self.process.cache_list()
        wanted, came = [], []
        for entry in self.books.entries:
            wanted.append((len(entry.ids), self.books.geometry.image_bytes(len(entry.ids), len(entry.marks)),
                           self.given_back(entry)))
        for row in rows:
            came.append((row.number("tokens"), row.number("bytes"), row.number("unique_bytes")))
        self.compare("CACHE list (tokens, bytes, unique_bytes)", sorted(wanted), sorted(came))
        self.compare("CACHE end (parked, held)", (len(self.books.entries), self.books.held_bytes()),
                     (end.number("parked"), end.number("held")))

    def given_back(self, entry):
        before, entries = self.books.held_bytes(), self.books.entries
        self.books.entries = [each for each in entries if each is not entry]
        after = self.books.held_bytes()
        self.books.entries = entries
        return before - after


def describe(truth, figures, text):
    names = ("source", "miss", "switched", "restored", "parked", "bytes", "evictions", "parked_now", "park_skip")
    shown = " ".join(f"{name}={figures[name]}" for name in names if name in figures)
    return f"prompt {len(truth.prompt)} = {figures['reused']} reused + {figures['read']} read; {shown}; {text!r}"
