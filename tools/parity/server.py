"""A private strata-serve whose engine lines are written down on the way, and chats over its HTTP."""
import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time

from . import wire

START_S = 120
REQUEST_S = 300
LEAVE_S = 15
DONE_IN_LOG_S = 10  # the line reaches the log before the server; this is patience for a busy machine
TAP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tap.py")


UNUSABLE_STATUS = 2  # a bad option: nothing could be played


class ServerFailed(Exception):
    """The server did not start, or answered with an error."""

    def __init__(self, text, status=None):
        super().__init__(text)
        self.status = status


class Server:
    def __init__(self, program, engine, model, folder, flags):
        self.log = os.path.join(folder, f"engine-{time.monotonic_ns()}.log")
        wrapper = os.path.join(folder, f"engine-{time.monotonic_ns()}.sh")
        with open(wrapper, "w") as file:
            file.write(f"#!/bin/sh\nexec '{sys.executable}' '{TAP}' '{os.path.abspath(engine)}' '{self.log}' \"$@\"\n")
        os.chmod(wrapper, 0o700)
        open(self.log, "w").close()
        clean = {k: v for k, v in os.environ.items() if not k.startswith("STRATA_")}
        self.process = subprocess.Popen(
            [program, "--model", os.path.abspath(model), "--port", "0", "--engine", wrapper, *flags],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=clean)
        self.lines, self.port, self.seen = [], None, 0
        self.listening = threading.Event()
        threading.Thread(target=self.read_lines, daemon=True).start()
        try:
            self.wait_until_ready()
        except ServerFailed:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def read_lines(self):
        for raw in self.process.stdout:
            line = raw.decode("utf-8", "replace").rstrip()
            self.lines.append(line)
            match = re.search(r"listening on http://127\.0\.0\.1:([0-9]+)", line)
            if match:
                self.port = int(match.group(1))
                self.listening.set()
        self.process.wait()
        self.listening.set()

    def wait_until_ready(self):
        """Listening, and a model loaded."""
        deadline = time.monotonic() + START_S
        if not self.listening.wait(START_S) or self.port is None:
            raise ServerFailed("the server does not listen:\n" + "\n".join(self.lines[-8:]), self.process.poll())
        while self.request("GET", "/health")[0] != 200:
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise ServerFailed("the server has no model:\n" + "\n".join(self.lines[-8:]), self.process.poll())
            time.sleep(0.05)

    def request(self, method, path, body=None):
        """-> (status, text)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=REQUEST_S)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError as fault:
            raise ServerFailed(f"{method} {path}: {fault}") from None
        finally:
            connection.close()

    def chat(self, messages, **fields):
        """-> (message, Done of the engine)."""
        body = json.dumps({"model": "demo", "messages": messages, "temperature": 0, "max_tokens": 160, **fields})
        status, text = self.request("POST", "/v1/chat/completions", body)
        if status != 200:
            raise ServerFailed(f"status {status}: {text[:500]}")
        return json.loads(text)["choices"][0]["message"], self.next_done()

    def next_done(self):
        """The DONE that the log has got since the last call."""
        deadline = time.monotonic() + DONE_IN_LOG_S
        while time.monotonic() < deadline:
            with open(self.log, encoding="utf-8", errors="replace") as log:
                lines = [line.rstrip("\n") for line in log if line.startswith("DONE ") and line.endswith("\n")]
            if len(lines) > self.seen:
                self.seen = len(lines)
                return wire.Done(wire.parse(lines[-1]))
            time.sleep(0.02)
        raise ServerFailed("the engine's DONE is not in its log")

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(LEAVE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
