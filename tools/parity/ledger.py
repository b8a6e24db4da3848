"""The books of a conversation cache, kept by the specification alone: what every DONE must say.

One request goes in (prompt, root, steering, what was written), the figures that its DONE must carry
come out. No bytes, no clock, no engine: pages and images are names, and what counts is how many
different ones are held.

The rules, each once:
 1. A conversation of n rows fills ceil(n / page_tokens) pages. A page of the live conversation is
    clean while a host page holds the same bytes; writing into it or cutting below its end makes it dirty.
 2. Parking copies the dirty pages and shares the clean ones. The image is: pages, one running state
    (the tail), and one for each other checkpoint.
 3. Bytes are unique: host pages of parked entries and of the live conversation, plus the images of
    parked entries. The live conversation's own images are outside.
 4. Plan: the longest candidate that is a strict prefix wins; ties: live, then the most recently
    parked. A model without running state resumes anywhere in the common prefix.
 5. Verdict: fewer than F reused tokens are only a root.
 6. Parking needs room for the image beside everything else held, the incoming image included.
"""
import collections

Request = collections.namedtuple("Request", "prompt root steer written rows")
Mark = collections.namedtuple("Mark", "kind position image")


class Geometry:
    """What the budget formulas are made of, as INFO gives it."""

    def __init__(self, info, turn_open):
        self.page_tokens = int(info["page_tokens"])
        self.page_bytes = int(info["kv_bytes_per_token"]) * self.page_tokens
        self.state_bytes = int(info["state_bytes"])
        self.kept = int(info["prompt_cache"])
        self.root_min = int(info["prompt_cache_root"])
        self.turn_open = turn_open
        self.hybrid = self.state_bytes > 0

    def pages(self, rows):
        return -(-rows // self.page_tokens)

    def image_bytes(self, rows, checkpoints):
        """Bytes of a parked conversation that shares nothing: `checkpoints` besides the tail."""
        return self.pages(rows) * self.page_bytes + (checkpoints + 1) * self.state_bytes


class Conversation:
    def __init__(self, steer):
        self.ids, self.steer, self.root_end = [], steer, 0
        self.marks = []  # Mark, least recently used first; the tail is not among them
        self.pages = {}  # page number -> name of the host page with the same bytes

    def deepest(self):
        return max((mark.position for mark in self.marks), default=0)


class Entry:
    def __init__(self, conversation, tail):
        self.ids, self.steer = list(conversation.ids), conversation.steer
        self.marks, self.pages, self.tail = list(conversation.marks), dict(conversation.pages), tail
        self.pinned = False

    def deepest(self):
        return max((mark.position for mark in self.marks), default=0)


class Plan:
    def __init__(self):
        self.source, self.position, self.entry, self.borrowed, self.live = "cold", 0, None, False, False


def common_prefix(a, b):
    n = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), None)
    return min(len(a), len(b)) if n is None else n


def first_turn_end(prompt, root, turn_open):
    """F."""
    return next((i for i, token in enumerate(prompt) if token == turn_open and i > root), root + 1)


class Ledger:
    def __init__(self, geometry, budget_bytes, slots=4, floor_blocks=False):
        self.geometry, self.budget, self.slots, self.floor_blocks = geometry, budget_bytes, slots, floor_blocks
        self.live, self.entries, self.names = None, [], 0
        self.lost_memory = []  # (cause, steer, [ids up to a checkpoint]), newest last
        self.totals = {"evictions": 0, "superseded": 0, "lost": 0, "released": 0, "evicted_budget": 0,
                       "evicted_slots": 0}
        self.peak = 0

    # ---- what is held
    def name(self):
        self.names += 1
        return self.names

    def held_bytes(self, *more):
        """Unique bytes of the parked entries, `more` (Entry values in flight) and the live K/V."""
        holders = self.entries + list(more)
        pages = {name for holder in holders for name in holder.pages.values()}
        if self.live:
            pages |= set(self.live.pages.values())
        images = {mark.image for holder in holders for mark in holder.marks}
        images |= {holder.tail for holder in holders}
        return len(pages) * self.geometry.page_bytes + len(images) * self.geometry.state_bytes

    def retained_bytes(self):
        parked = {name for entry in self.entries for name in entry.pages.values()}
        own = set(self.live.pages.values()) - parked if self.live else set()
        return len(own) * self.geometry.page_bytes

    # ---- plan
    def plan(self, request):
        plan = Plan()
        if self.live and self.live.steer == request.steer:
            self.consider(plan, request, self.live, None)
        for entry in reversed(self.entries):
            if entry.steer == request.steer:
                self.consider(plan, request, entry, entry)
        return plan

    def consider(self, plan, request, holder, entry):
        """Takes the longest match of one holder when it is longer than what the plan has."""
        most = min(common_prefix(request.prompt, holder.ids), len(request.prompt) - 1)
        end = len(holder.ids)
        places = [(end, "parked" if entry else "live", False)] if end <= most else []
        if self.geometry.hybrid:
            deepest = holder.deepest()
            for mark in holder.marks:
                word = mark.kind if not entry else "parked_checkpoint"
                if mark.position <= most:
                    places.append((mark.position, word, entry is not None and mark.position < deepest))
        elif end > most > 0:
            floor = max((i for i, t in enumerate(holder.ids) if t == self.geometry.turn_open), default=0)
            deep = most >= floor
            places.append((most, ("parked_checkpoint" if deep else "borrowed") if entry else "live",
                           entry is not None and not deep))
        for position, word, borrowed in places:
            if position > plan.position:
                plan.position, plan.entry, plan.live, plan.borrowed = position, entry, entry is None, borrowed
                plan.source = "borrowed" if borrowed else word

    def miss(self, request, first):
        """Why nothing with F tokens came back."""
        for cause, steer, ids in reversed(self.lost_memory):
            if steer == request.steer and len(ids) >= first and request.prompt[:len(ids)] == ids:
                return cause
        known = ([self.live] if self.live else []) + self.entries
        if any(common_prefix(request.prompt, c.ids) >= first and c.steer != request.steer for c in known):
            return "steering"
        return "new"

    # ---- one request
    def step(self, request):
        """-> {name of DONE: value} and the list of CONV kinds that this request must cause."""
        plan = self.plan(request)
        first = first_turn_end(request.prompt, request.root, self.geometry.turn_open)
        back = plan.position >= first
        out = {"reused": plan.position, "switched": int(not (plan.live and back)),
               "restored": int(plan.entry is not None and back), "source": plan.source}
        out["read"] = len(request.prompt) - plan.position
        conv = []
        if self.budget and self.slots:
            self.park_outgoing(plan, request, first, out, conv)
        if out["switched"] and not out["restored"]:
            out["miss"] = self.miss(request, first)
        self.resume(plan, request, conv)
        self.drop_superseded_by(self.live, first, conv)
        self.read(plan, request)
        out.update({"parked": len(self.entries), "bytes": self.held_bytes() if self.budget else 0,
                    "evictions": self.totals["evictions"], "checkpoints": len(self.live.marks)})
        out.update({k: self.totals[k] for k in ("superseded", "lost", "released")})
        out["retained"] = self.retained_bytes()
        return out, conv

    # ---- parking
    def park_outgoing(self, plan, request, first, out, conv):
        outgoing = self.live
        if outgoing is None or not outgoing.ids:
            return
        continues = not out["switched"]
        if continues and outgoing.deepest() <= plan.position:
            return  # nothing but the last answer is dropped
        if self.superseded_by_incoming(outgoing, plan, first):
            self.totals["superseded"] += 1
            conv.append({"kind": "supersede"})
            return
        skip = self.try_park(outgoing, plan, first, not continues, conv)
        if continues and skip:
            return
        out["parked_now"] = int(not skip)
        if not skip:
            return
        out["park_skip"] = skip
        if plan.entry is not None and skip == "budget":
            self.totals["lost"] += 1
        self.forget(outgoing, "floor" if skip == "floor" else "budget")
        conv.append({"kind": "skip", "reason": skip})

    def superseded_by_incoming(self, outgoing, plan, first):
        """An older turn of the conversation that comes back."""
        return plan.entry is not None and not plan.borrowed and self.superseded(outgoing, plan.entry, first)

    def superseded(self, old, by, first):
        deepest = old.deepest() if self.geometry.hybrid else len(old.ids)
        places = {mark.position for mark in by.marks} | {len(by.ids)}
        return (old.steer == by.steer and deepest >= first and deepest in places
                and old.ids[:deepest] == by.ids[:deepest])

    def try_park(self, outgoing, plan, first, may_evict, conv):
        """Parks, or says why not. Nothing changes when it does not."""
        rows, geometry = len(outgoing.ids), self.geometry
        image = Entry(outgoing, self.name())
        image.pages = {n: outgoing.pages.get(n) or self.name() for n in range(geometry.pages(rows))}
        if self.floor_blocks:
            return "floor"
        if geometry.image_bytes(rows, len(outgoing.marks)) > self.budget:
            return "too_large"
        victims = self.victims(image, plan)
        if victims is None or (victims and not may_evict):
            return "budget"
        for victim in victims:
            self.evict(victim, conv)
        outgoing.pages = dict(image.pages)
        self.entries.append(image)
        new_pages = len(set(image.pages.values()) - self.pages_before)
        conv.append({"kind": "park", "tokens": rows, "new_pages": new_pages})
        self.peak = max(self.peak, self.held_bytes())
        for entry in [e for e in self.entries if e not in (image, plan.entry)]:
            self.drop_if_superseded(entry, image, first, conv)
        return None

    def victims(self, image, plan):
        """The least recently active entries that must go; None when even all would not suffice."""
        self.pages_before = {n for e in self.entries for n in e.pages.values()} | set(self.live.pages.values())
        kept, gone = list(self.entries), []

        while not self.fits(kept, image, plan):
            victim = next((e for e in kept if not e.pinned and e is not plan.entry), None)
            if victim is None:
                return None
            kept.remove(victim)
            gone.append(victim)
        return gone

    def fits(self, kept, image, plan):
        """Do `kept` and the image fit, when the entry that is taken leaves its slot?"""
        leaving = 1 if plan.entry is not None and not plan.borrowed else 0
        entries, self.entries = self.entries, kept
        room = self.held_bytes(image) <= self.budget and len(kept) + 1 - leaving <= self.slots
        self.entries = entries
        return room

    def evict(self, victim, conv):
        self.entries.remove(victim)
        self.totals["evictions"] += 1
        self.forget(victim, "evicted")
        conv.append({"kind": "evict"})

    def forget(self, conversation, cause):
        places = [mark.position for mark in conversation.marks] + [len(conversation.ids)]
        for place in sorted(places):
            self.lost_memory.append((cause, conversation.steer, list(conversation.ids[:place])))

    def drop_superseded_by(self, conversation, first, conv):
        for entry in list(self.entries):
            self.drop_if_superseded(entry, conversation, first, conv)

    def drop_if_superseded(self, entry, by, first, conv):
        if not entry.pinned and self.superseded(entry, by, first):
            self.entries.remove(entry)
            self.totals["superseded"] += 1
            conv.append({"kind": "supersede"})

    def release_all(self):
        """Pressure that asks for everything: retained K/V, then every entry that is not pinned."""
        gone = [entry for entry in self.entries if not entry.pinned]
        if self.live:
            self.live.pages = {}
        for entry in gone:
            self.entries.remove(entry)
            self.totals["released"] += 1
            self.forget(entry, "released")
        return len(gone)

    # ---- what the live conversation becomes
    def resume(self, plan, request, conv):
        position, geometry = plan.position, self.geometry
        if plan.position == 0:
            self.live = Conversation(request.steer)
            return
        holder = plan.entry or self.live
        live = Conversation(request.steer)
        live.ids = list(holder.ids[:position])
        live.marks = [mark for mark in holder.marks if mark.position <= position]
        used = [mark for mark in live.marks if mark.position == position]
        live.marks = [mark for mark in live.marks if mark not in used] + used
        live.pages = {n: name for n, name in holder.pages.items() if (n + 1) * geometry.page_tokens <= position}
        if plan.entry is not None:
            conv.append({"kind": "borrow" if plan.borrowed else "restore"})
            if not plan.borrowed:
                self.entries.remove(plan.entry)
        self.live = live

    def read(self, plan, request):
        """Reads the rest and writes: new checkpoints, new rows. What is dirty was cut off by resume()."""
        geometry, live, prompt = self.geometry, self.live, request.prompt
        live.root_end = request.root
        if geometry.root_min and plan.position == 0 and geometry.root_min <= request.root:
            self.keep(Mark("root", request.root, self.name()))
        turn = max((i for i, token in enumerate(prompt) if token == geometry.turn_open), default=0)
        if plan.position < turn < len(prompt):
            self.keep(Mark("turn", turn, self.name()))
        live.ids = (prompt + request.written)[:request.rows]

    def keep(self, mark):
        marks = self.live.marks
        if len(marks) >= self.geometry.kept:
            victim = next((m for m in marks if m.kind != "root" or self.geometry.kept < 2), None)
            if victim is None:
                return
            marks.remove(victim)
        marks.append(mark)
