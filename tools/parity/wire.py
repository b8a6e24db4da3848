"""The line protocol as the parity scripts read it: one event line becomes one Event.

Written from the protocol's grammar, independent of protocol/: positional fields first, then names in
any order, then free text. What is malformed is told as a Fault, never guessed.
"""
import re

NAME = re.compile(r"([a-z0-9_]+)=(.*)", re.S)
FREE_TEXT = ("text", "path")
EVENTS = ("LOAD", "INFO", "READY", "RESUME", "PP", "T", "CONV", "DONE", "ERR", "CACHE", "PRESSURE",
          "PONG", "SAVED", "RESTORED", "SERR")
EVENT_BYTES_MAX = 1 << 20
DONE_BASE_FIELDS, DONE_FIELDS = 14, 19


class Fault(Exception):
    """A line that is not one of the protocol."""


class Event:
    def __init__(self, verb, fields, names):
        self.verb, self.fields, self.names, self.at = verb, fields, names, 0.0

    def field(self, index):
        """Positional field, counted from 1 behind the verb, as an integer."""
        return integer(self.fields[index - 1], f"field {index} of {self.verb}")

    def get(self, name, otherwise=None):
        return self.names.get(name, otherwise)

    def number(self, name):
        """The integer value of a name; None when it is absent."""
        return integer(self.names[name], name) if name in self.names else None

    def __repr__(self):
        return " ".join([self.verb, *self.fields, *(f"{k}={v}" for k, v in self.names.items())])


def integer(text, what):
    if not re.fullmatch(r"-?[0-9]+", text):
        raise Fault(f"{what} is {text!r}, no integer")
    return int(text)


def split_free_text(line):
    """-> (the line without its free text, {name: text})."""
    for name in FREE_TEXT:
        at = line.find(f" {name}=")
        if at >= 0:
            return line[:at], {name: line[at + len(name) + 2:]}
    return line, {}


def parse(line):
    """One line without its line end -> Event; raises Fault."""
    if len(line) > EVENT_BYTES_MAX:
        raise Fault(f"a line of {len(line)} bytes")
    if re.search(r"[\x00-\x1f\x7f]", line):
        raise Fault(f"control characters in {line[:80]!r}")
    head, names = split_free_text(line)
    words = [word for word in head.split(" ") if word]
    if not words or words[0] not in EVENTS:
        raise Fault(f"unknown event {line[:80]!r}")
    fields = []
    for word in words[1:]:
        match = NAME.fullmatch(word)
        if not match:
            if names.keys() - set(FREE_TEXT):
                raise Fault(f"a bare field behind the names: {word!r} in {line[:80]!r}")
            fields.append(word)
        elif match.group(1) in names:
            raise Fault(f"the name {match.group(1)} comes twice in {line[:80]!r}")
        else:
            names[match.group(1)] = match.group(2)
    return checked(Event(words[0], fields, names))


def checked(event):
    least = {"DONE": DONE_BASE_FIELDS, "T": 1, "CONV": 1, "RESUME": 1, "PP": 4, "READY": 1, "ERR": 1}
    if len(event.fields) < least.get(event.verb, 0):
        raise Fault(f"{event.verb} with {len(event.fields)} fields: {event!r}")
    return event


class Done:
    """DONE by its names. `cache` is None when fields 15-19 are absent."""

    def __init__(self, event):
        self.event = event
        self.generated, self.prompt_tokens = event.field(1), event.field(2)
        self.finish, self.reused, self.read = event.fields[4], event.field(8), event.field(14)
        self.cache = None
        if len(event.fields) >= DONE_FIELDS:
            names = ("switched", "restored", "parked", "bytes", "evictions")
            self.cache = {name: event.field(15 + n) for n, name in enumerate(names)}

    def figures(self):
        """Everything that a scenario may compare, by name; absent names are absent."""
        out = {"reused": self.reused, "read": self.read, "finish": self.finish}
        out.update(self.cache or {})
        for name in ("superseded", "released", "lost", "evicted_budget", "evicted_slots", "retained",
                     "checkpoints", "parked_now"):
            if name in self.event.names:
                out[name] = self.event.number(name)
        for name in ("source", "miss", "park_skip", "logits_sha256", "state_sha256"):
            if name in self.event.names:
                out[name] = self.event.get(name)
        return out


def gen_line(request_id, ids, max_new, root, names):
    more = "".join(f" {name}={value}" for name, value in names.items())
    return (f"GEN {max_new} id={request_id} root={root} hash=1{more} "
            f"ids={','.join(map(str, ids))}")
