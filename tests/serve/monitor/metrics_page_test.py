#!/usr/bin/env python3
"""The Prometheus page of a running server: its types, its names, the Grafana board, promtool.

    metrics_page_test.py board|promtool BIN_DIR

board     the page comes by Accept and by ?format=, and has every series that the board asks for
promtool  `promtool check metrics` finds nothing but the ':' in names; exit 77 where there is none
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[3]
MODEL = ROOT / "tools/demo_model/strata-demo-q8_0.gguf"
BOARD = ROOT / "tools/grafana/strata.json"
FETCHED = ROOT / "build/promtool/usr/bin/promtool"  # by tools/setup.sh
SKIPPED = 77
START_S = 30
SCRAPE = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1"
# Names that dashboards and alerts rely on.
PROMISED = """
vllm:num_requests_running vllm:num_requests_waiting vllm:kv_cache_usage_perc
vllm:prompt_tokens_total vllm:generation_tokens_total vllm:request_success_total
vllm:prefix_cache_queries_total vllm:prefix_cache_hits_total vllm:num_preemptions_total
vllm:spec_decode_num_draft_tokens_total vllm:spec_decode_num_accepted_tokens_total
vllm:time_to_first_token_seconds_bucket vllm:inter_token_latency_seconds_bucket
vllm:e2e_request_latency_seconds_bucket vllm:request_queue_time_seconds_bucket
vllm:request_prefill_time_seconds_bucket vllm:request_decode_time_seconds_bucket
vllm:request_prompt_tokens_bucket vllm:request_generation_tokens_bucket
strata:conversation_switches_total strata:conversation_parks_total
strata:conversation_restores_total strata:conversation_evictions_total
strata:conversation_released_total strata:conversation_superseded_total
strata:conversation_lost_total strata:conversation_skips_total
strata:conversation_parked strata:conversation_slots
strata:conversation_bytes strata:conversation_budget_bytes strata:host_available_bytes
strata:host_floor_bytes strata:pressure_events_total strata:park_seconds_bucket
strata:restore_seconds_bucket strata:ttft_seconds_bucket strata:requests_refused_total
""".split()


class Server:
    """strata-serve with the demo model on a free port; ended with the block."""

    def __init__(self, bin_dir):
        self.folder = tempfile.mkdtemp()
        self.log = os.path.join(self.folder, "log")
        command = [os.path.join(bin_dir, "strata-serve"), "--model", str(MODEL), "--port", "0",
                   "--engine", os.path.join(bin_dir, "strata-engine"),
                   "--conversation-cache-mib", "64", "--conversation-cache-min-free-mib", "0"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def __enter__(self):
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            found = re.search(r"http://127\.0\.0\.1:(\d+)", pathlib.Path(self.log).read_text())
            if found:
                self.url = found.group(0)
                try:
                    urllib.request.urlopen(self.url + "/health", timeout=5).read()
                    return self
                except OSError:
                    pass
            time.sleep(0.05)
        self.__exit__()
        raise SystemExit("the server did not start:\n" + pathlib.Path(self.log).read_text())

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def get(self, path, accept="*/*"):
        request = urllib.request.Request(self.url + path, headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.headers["Content-Type"], answer.read().decode()

    def chat(self, text):
        body = json.dumps({"messages": [{"role": "user", "content": text}], "max_tokens": 4})
        request = urllib.request.Request(self.url + "/v1/chat/completions", body.encode(),
                                         {"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=30).read()


def page_of(bin_dir):
    with Server(bin_dir) as server:
        for text in ("What is an otter?", "Hello!", "What is an otter?"):
            server.chat(text)
        kind, page = server.get("/metrics", SCRAPE)
        assert kind.startswith("text/plain; version=0.0.4"), kind
        by_query = server.get("/metrics?format=prometheus", "application/json")
        assert by_query[0] == kind
        for accept in ("*/*", "application/json", "text/html,*/*;q=0.8"):
            kind, document = server.get("/metrics", accept)
            assert kind.startswith("application/json"), (accept, kind)
            assert json.loads(document)["requests"]
    return page


def names_of(page):
    return {line.split("{")[0] for line in page.splitlines() if line and line[0] != "#"}


def board_names(board):
    words = set()
    for panel in board["panels"]:
        for target in panel["targets"]:
            words |= set(re.findall(r"(?:vllm|strata):[a-z_0-9]+", target["expr"]))
    return words


def check_board(page):
    board = json.loads(BOARD.read_text())
    asked = board_names(board)
    there = names_of(page)
    assert len(asked) > 20, asked
    missing = sorted(asked - there)
    assert not missing, f"the board asks for what the page has not: {missing}"
    missing = sorted(set(PROMISED) - there)
    assert not missing, f"the page lacks {missing}"
    for line in page.splitlines():
        assert line.startswith("#") or 'model_name="' in line, line
    print(f"{len(asked)} names of the board and {len(PROMISED)} promised ones are on the page")


def check_promtool(page):
    promtool = shutil.which("promtool") or shutil.which(str(FETCHED))
    if promtool is None:
        print("SKIP: promtool is not installed (tools/setup.sh test fetches it)")
        return SKIPPED
    result = subprocess.run([promtool, "check", "metrics"], input=page, text=True,
                            capture_output=True, timeout=30, check=False)
    said = [line for line in (result.stdout + result.stderr).splitlines()
            if line.strip() and "metric names should not contain ':'" not in line]
    assert result.returncode in (0, 3), result
    assert not said, "\n".join(said)
    print("promtool finds nothing")
    return 0


def main():
    what, bin_dir = sys.argv[1:3]
    page = page_of(bin_dir)
    if what == "board":
        check_board(page)
        return 0
    return check_promtool(page)


if __name__ == "__main__":
    sys.exit(main())
