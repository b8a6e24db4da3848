#!/usr/bin/env python3
"""The parity scripts find each planted fault in a real engine, and find nothing in the same program
without one.

usage: faults_test.py FAULTY_ENGINE MODEL SERVER
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "conversation_cache_parity.py"
RUN_S = 300

# (fault, scenario that must find it, what its output must name)
PLANTED = (
    ("none", "reuse", None),
    ("none", "pressure", None),
    ("flipped_page", "reuse", "state_sha256: expected"),
    ("skipped_restore", "reuse", "state_sha256: expected"),
    ("forced_hit", "pressure", "restored: expected 0, came 1"),
    ("none", "steering", None),
    ("flipped_page", "steering", "state_sha256: expected"),
    ("skipped_restore", "steering", "state_sha256: expected"),
    ("none", "identity", None),
    ("flipped_page", "identity", "state_sha256"),
    ("skipped_restore", "identity", "state_sha256"),
)


def wrapper(folder, program, fault):
    """The parity script starts one program: this one adds the option."""
    path = os.path.join(folder, f"{fault}.sh")
    with open(path, "w") as file:
        file.write(f"#!/bin/sh\nexec '{os.path.abspath(program)}' --fault {fault} \"$@\"\n")
    os.chmod(path, 0o700)
    return path


def judged(program, model, fault, scenario, named):
    """-> what is wrong with the script's verdict, or None."""
    result = subprocess.run([sys.executable, SCRIPT, "--engine", program, "--model", model, "--scenario", scenario],
                            capture_output=True, text=True, timeout=RUN_S)
    wanted = 0 if fault == "none" else 1
    if result.returncode != wanted:
        return f"{fault} in {scenario}: status {result.returncode}, wanted {wanted}\n{result.stdout}{result.stderr}"
    if named and named not in result.stdout:
        return f"{fault} in {scenario}: the output does not say {named!r}\n{result.stdout}"
    return None


def verify_ends_the_engine(program, model):
    """STRATA_SNAPSHOT_VERIFY=1 sees by itself what a flipped byte did, and ends the engine."""
    sys.path.insert(0, str(SCRIPT.parent))
    from parity import engine, prompts, tokens
    vocabulary = tokens.load(model)
    chats = [prompts.chat(vocabulary, n, 300) for n in range(2)]
    environment = {**os.environ, "STRATA_SNAPSHOT_VERIFY": "1"}
    flags = ["--conversation-cache-mib", "64", "--conversation-cache-min-free-mib", "0"]
    with engine.Engine(program, model, flags, environment) as process:
        first = process.ask(chats[0].first(), chats[0].root, 32)
        process.ask(chats[1].first(), chats[1].root, 32)
        try:
            process.ask(chats[0].next(chats[0].first(), first.ids, 1), chats[0].root, 32)
        except engine.EngineDied as fault:
            status = process.process.wait(30)
            good = status == 5 and "restore_failed" in str(fault)
            return None if good else f"verify: status {status}, wanted 5 after ERR restore_failed: {fault}"
    return "verify: a flipped page was answered from"


def lost_device_ends_the_engine(program, model):
    """A long prompt loses the device: that request is refused, the engine says so and ends."""
    sys.path.insert(0, str(SCRIPT.parent))
    from parity import engine, prompts, tokens
    vocabulary = tokens.load(model)
    short, long = prompts.chat(vocabulary, 0, 300), prompts.chat(vocabulary, 1, 1500)
    with engine.Engine(program, model) as process:
        process.ask(short.first(), short.root, 8)
        try:
            process.ask(long.first(), long.root, 8)
        except engine.EngineDied as fault:
            status = process.process.wait(30)
            said = "device_lost" in str(fault) and "the planted fault" in str(fault)
            return None if status == 5 and said else f"lost_device: status {status}, wanted 5 after ERR: {fault}"
    return "lost_device: a lost device has answered"


def next_epoch_serves(server, program, model, folder):
    """The same behind a server: one request fails, the next one is answered by the next engine."""
    sys.path.insert(0, str(SCRIPT.parent))
    from parity import server as serving
    long = "Tell me about the sea and the ships on it. " * 80
    with serving.Server(server, program, model, folder, []) as running:
        running.chat([{"role": "user", "content": "Hello."}])
        body = json.dumps({"model": "demo", "messages": [{"role": "user", "content": long}], "max_tokens": 4})
        status, text = running.request("POST", "/v1/chat/completions", body)
        if status < 500 or "device_lost" not in text:
            return f"lost_device behind a server: status {status}, {text[:300]}"
        running.wait_until_ready()
        running.chat([{"role": "user", "content": "Hello."}])
        metrics = running.request("GET", "/metrics")[1]
        return None if '"epoch":2' in metrics else f"lost_device behind a server: not epoch 2: {metrics[:300]}"


def main():
    program, model, server = sys.argv[1:4]
    found = []
    with tempfile.TemporaryDirectory(prefix="strata-faults-") as folder:
        for fault, scenario, named in PLANTED:
            found.append(judged(wrapper(folder, program, fault), model, fault, scenario, named))
        found.append(verify_ends_the_engine(wrapper(folder, program, "flipped_page"), model))
        lost = wrapper(folder, program, "lost_device")
        found.append(lost_device_ends_the_engine(lost, model))
        found.append(next_epoch_serves(server, lost, model, folder))
    found = [problem for problem in found if problem]
    print("\n".join(found))
    print(f"{len(PLANTED) + 3} runs, {len(found)} judged wrongly")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
