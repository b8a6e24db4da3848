#!/usr/bin/env python3
"""Row C25 with a real kill: server and fake engine in a memory cgroup with a limit, the engine takes more.

usage: oom_run.py SERVER FAKE_ENGINE MODEL
The kernel has to take the engine and leave the server, which tells the client and its log that memory ran
out, with the group's oom_kill as evidence, and answers the next request with a new engine. Two controls: a
process that takes more than the limit is killed, so the limit is in effect; and an engine killed by hand in
the same group is not told as a want of memory.
Exit status: 0 as specified, 1 not, 2 it cannot be played: this machine lets us make no memory cgroup.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import http.client

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "parity"))

from limit_run import Cgroup, NOT_PLAYED, Wrong, check_limit_is_real, expect  # noqa: E402

LIMIT_MIB = 192  # server and engine take about 30
GREED_MIB = 1000
START_S, REQUEST_S, LATE_S = 60, 60, 30
OUT_OF_MEMORY = "the kernel sent because memory ran out (oom_kill of its control group)"
BY_HAND = "this server did not send"
CHAT = '{"messages":[{"role":"user","content":"hi"}],"max_tokens":3}'
# The first start answers a little and then takes too much; every later one is an ordinary engine.
SCRIPT = ["on 1", "ready", "await GEN", "tokens 2", f"grow {GREED_MIB}", "end", "from 2", "ready", "serve", "end"]


class Server:
    """strata-serve inside the cgroup, its log in memory."""

    def __init__(self, program, engine, model, cgroup, folder):
        wrapper = pathlib.Path(folder) / "engine"
        script = " ".join(f"--do '{line}'" for line in SCRIPT)
        wrapper.write_text(f"#!/bin/sh\nexec '{engine}' --starts '{folder}/starts' {script} \"$@\"\n")
        wrapper.chmod(0o755)
        clean = {k: v for k, v in os.environ.items() if not k.startswith("STRATA_")}
        self.lines, self.port = [], None
        self.listening = threading.Event()
        self.process = subprocess.Popen(
            [cgroup.wrapper(folder, program), "--model", model, "--port", "0", "--max-context", "4096",
             "--engine", str(wrapper)],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=clean, text=True)
        threading.Thread(target=self.read_log, daemon=True).start()
        self.listening.wait(START_S)

    def read_log(self):
        for line in self.process.stderr:
            self.lines.append(line.rstrip())
            found = re.search(r"listening on http://127\.0\.0\.1:([0-9]+)", line)
            if found:
                self.port = int(found.group(1))
                self.listening.set()
        self.listening.set()

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=REQUEST_S)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def wait_until_ready(self):
        deadline = time.monotonic() + START_S
        while self.request("GET", "/health")[0] != 200 and time.monotonic() < deadline:
            time.sleep(0.05)

    def engine_pid(self):
        """The server's only child."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        expect("children of the server", "one", len(children) == 1, children)
        return int(children[0])

    def said(self, text):
        deadline = time.monotonic() + LATE_S
        while time.monotonic() < deadline:
            if any(text in line for line in self.lines):
                return True
            time.sleep(0.05)
        return False

    def close(self):
        self.process.terminate()
        try:
            return self.process.wait(LATE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def play(server):
    server.wait_until_ready()
    status, text = server.request("POST", "/v1/chat/completions", CHAT)
    expect("the request whose engine took too much", "status 500", status == 500, status)
    expect("what its client hears", OUT_OF_MEMORY, OUT_OF_MEMORY in text, text)
    expect("the server", "lives", server.process.poll() is None, server.process.poll())
    expect("the log", OUT_OF_MEMORY, server.said(OUT_OF_MEMORY), server.lines[-4:])
    server.wait_until_ready()
    status, text = server.request("POST", "/v1/chat/completions", CHAT)
    expect("the next request", "status 200", status == 200, (status, text))
    before = len(server.lines)
    os.kill(server.engine_pid(), signal.SIGKILL)
    expect("an engine killed by hand", BY_HAND, server.said(BY_HAND), server.lines[before:])
    told = [line for line in server.lines[before:] if OUT_OF_MEMORY in line]
    expect("lines that call it a want of memory", [], not told, told)


def main():
    program, engine, model = sys.argv[1:]
    try:
        cgroup = Cgroup()
    except OSError as fault:
        print(f"SKIP: no memory cgroup can be made here: {fault}")
        return NOT_PLAYED
    try:
        with tempfile.TemporaryDirectory(prefix="strata-oom-") as folder:
            check_limit_is_real(cgroup, folder)
            cgroup.set_limit_mib(LIMIT_MIB)
            server = Server(program, engine, model, cgroup, folder)
            try:
                expect("the server", "listens", server.port is not None, server.lines[-4:])
                play(server)
                expect("its exit status", 0, server.close() == 0, server.process.returncode)
            finally:
                server.close()
        return 0
    except Wrong:
        return 1
    finally:
        cgroup.remove()


if __name__ == "__main__":
    sys.exit(main())
