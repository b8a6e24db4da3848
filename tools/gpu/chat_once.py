"""Waits for a strata-serve, chats once, and prints what its Monitor says of the GPU.

  chat_once.py http://127.0.0.1:PORT
Exits with 1 when there is no answer or no GPU in /metrics.
"""

import json
import sys
import time
import urllib.error
import urllib.request

WAIT_S = 60
GPU_TRIES = 20


def ask(address, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
        return json.load(answer)


def await_ready(base):
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            return ask(base + "/health")
        except (urllib.error.URLError, ConnectionError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def await_gpus(base):
    """The GPU is read beside the requests: the first ones may find nothing yet."""
    for _ in range(GPU_TRIES):
        gpus = ask(base + "/metrics")["hardware"]["gpus"]
        if gpus:
            return gpus
        time.sleep(0.5)
    return []


def main():
    base = sys.argv[1]
    await_ready(base)
    messages = [{"role": "user", "content": "What is an otter?"}]
    answer = ask(base + "/v1/chat/completions", {"messages": messages, "temperature": 0})
    print("answer:", answer["choices"][0]["message"]["content"])
    gpus = await_gpus(base)
    print("Monitor:", json.dumps(gpus))
    return 0 if gpus and answer["choices"][0]["message"]["content"] else 1


if __name__ == "__main__":
    sys.exit(main())
