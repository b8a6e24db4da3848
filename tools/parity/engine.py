"""A private engine process: started, spoken to over its pipes, watched, ended by its own pid.

Owns the process and the resident-memory sampler. What an answer should be is not its business.
"""
import queue
import subprocess
import threading
import time

from . import wire

START_S = 120  # loading a small model on a busy machine
REQUEST_S = 600  # the longest prompt of any scenario, under a sanitizer
LEAVE_S = 10
SAMPLE_S = 0.05  # 20 Hz
KIB = 1024


UNUSABLE_STATUSES = (2, 3, 4)  # a bad option, a refused model, no device: nothing could be played


class EngineDied(Exception):
    """The process ended, said ERR, or did not answer in time."""

    def __init__(self, text, status=None):
        super().__init__(text)
        self.unusable = status in UNUSABLE_STATUSES


class Reply:
    """Everything that one request said."""

    def __init__(self):
        self.ids, self.conv, self.resume, self.done = [], [], None, None

    def take(self, event):
        if event.verb == "T":
            self.ids.append(event.field(1))
        elif event.verb == "CONV":
            self.conv.append(event)
        elif event.verb == "RESUME":
            self.resume = event
        elif event.verb == "DONE":
            self.done = wire.Done(event)


def resident_kib(pid):
    """VmRSS of a process; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/status") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0


class Engine:
    def __init__(self, program, model, flags=(), environment=None):
        command = [program, "--model", model, "--chunk-ms", "0", *flags]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment)
        self.command = " ".join(command)
        self.events, self.errors, self.memory = queue.Queue(), [], []
        self.info, self.words, self.next_id = {}, [], 0
        self.ended = threading.Event()
        for work in (self.read_events, self.read_errors, self.sample_memory):
            threading.Thread(target=work, daemon=True).start()
        try:
            self.wait_for("READY", START_S)
        except Exception:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def read_events(self):
        for raw in self.process.stdout:
            try:
                event = wire.parse(raw.decode("utf-8", "replace").rstrip("\r\n"))
            except wire.Fault as fault:
                self.events.put(fault)
                continue
            event.at = time.monotonic()
            self.events.put(event)
        self.events.put(None)

    def read_errors(self):
        for raw in self.process.stderr:
            self.errors.append((time.monotonic(), raw.decode("utf-8", "replace").rstrip()))

    def sample_memory(self):
        while not self.ended.wait(SAMPLE_S):
            self.memory.append((time.monotonic(), resident_kib(self.process.pid)))

    def peak_bytes(self):
        return max((kib for _, kib in list(self.memory)), default=0) * KIB

    def next_event(self, deadline):
        """The next event; INFO and READY are remembered."""
        try:
            event = self.events.get(timeout=max(deadline - time.monotonic(), 0.001))
        except queue.Empty:
            raise EngineDied(f"no answer in time from: {self.command}") from None
        if event is None:
            status = self.process.wait(timeout=LEAVE_S)
            tail = "\n".join(text for _, text in self.errors[-8:])
            raise EngineDied(f"the engine ended with status {status}:\n{tail}", status)
        if isinstance(event, wire.Fault):
            raise EngineDied(f"stdout holds a line that is not of the protocol: {event}")
        if event.verb == "INFO":
            self.info.update(event.names)
        if event.verb == "READY":
            self.words = event.fields[1:]
        return event

    def wait_for(self, verb, seconds):
        deadline = time.monotonic() + seconds
        while True:
            event = self.next_event(deadline)
            if event.verb == verb:
                return event
            if event.verb in ("ERR", "SERR"):
                raise EngineDied(f"the engine refused: {event!r}")

    def send(self, line):
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise EngineDied(f"the engine does not read: {error}") from None

    def ask(self, ids, root, max_new, **names):
        """One request -> Reply."""
        self.next_id += 1
        self.send(wire.gen_line(self.next_id, ids, max_new, root, names))
        reply, deadline = Reply(), time.monotonic() + REQUEST_S
        while reply.done is None:
            event = self.next_event(deadline)
            if event.verb == "ERR":
                raise EngineDied(f"the engine refused: {event!r}")
            if event.number("id") in (None, self.next_id):
                reply.take(event)
        return reply

    def cache_list(self, command="list", **names):
        """-> the rows of CACHE and the line behind them."""
        self.send(f"CACHE {command}" + "".join(f" {k}={v}" for k, v in names.items()))
        rows = []
        while True:
            row = self.wait_for("CACHE", REQUEST_S)
            if row.fields == ["end"]:
                return rows, row
            rows.append(row)

    def trim(self):
        """-> (PRESSURE, the CONV events before it)."""
        self.send("TRIM")
        conv, deadline = [], time.monotonic() + REQUEST_S
        while True:
            event = self.next_event(deadline)
            if event.verb == "CONV":
                conv.append(event)
            elif event.verb == "PRESSURE":
                return event, conv
            elif event.verb == "ERR":
                raise EngineDied(f"the engine refused: {event!r}")

    def close(self):
        """QUIT, then SIGKILL for this one process. -> its exit status."""
        self.ended.set()
        if self.process.poll() is None:
            try:
                self.send("QUIT")
                self.process.stdin.close()
            except (EngineDied, OSError):
                pass
            try:
                self.process.wait(timeout=LEAVE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()
