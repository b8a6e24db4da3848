#!/usr/bin/env python3
"""Every #include against the matrix of DETAILS.md, "Rooms". What the table does not allow is a fault."""

import re
import sys

import tree

EVERYWHERE = ("strata/core/result.hpp", "strata/core/checked.hpp", "strata/core/closest.hpp",
              "strata/core/wrapped_text.hpp")
OS_HEADERS = re.compile(r"^(sys/|linux/|netinet/|arpa/|unistd\.h|fcntl\.h|signal\.h|poll\.h|pthread\.h|sched\.h"
                        r"|dlfcn\.h|malloc\.h|spawn\.h|termios\.h|pwd\.h|dirent\.h|netdb\.h)")
FILE_HEADERS = ("fcntl.h", "sys/mman.h", "sys/stat.h", "unistd.h")
ENGINE_ROOMS = ("engine/conversation/", "engine/state/", "engine/model/", "engine/host/",
                "engine/backend/cpu/", "engine/backend/cuda/")
SERVE_BELOW = {
    "serve/text/": (),
    "serve/supervisor/": (),
    "serve/monitor/": ("serve/supervisor/",),
    "serve/api/": ("serve/text/", "serve/supervisor/", "serve/monitor/"),
    "serve/http/": ("serve/api/", "serve/text/", "serve/supervisor/", "serve/monitor/"),
}
JSON_PLACES = ("serve/api/", "serve/monitor/metrics_json", "serve/config")


def room_of(path):
    rooms = ("include/strata/", "protocol/", *ENGINE_ROOMS, "engine/", *SERVE_BELOW, "serve/")
    return next((room for room in rooms if path.startswith(room)), None)


def allowed_own(room, include):
    """May `room` include the project header `include`?"""
    if include.startswith(room) and not (room == "engine/" and include.count("/") > 1):
        return True
    if room == "include/strata/":
        return include.startswith("strata/")
    if room == "protocol/":
        return include in EVERYWHERE
    if room in ENGINE_ROOMS:
        return include.startswith("strata/") or (
            room == "engine/model/" and include.startswith("protocol/gguf/"))
    if room == "engine/":
        return include.startswith(("strata/", "protocol/", *ENGINE_ROOMS))
    if room == "serve/":
        return include.startswith(("protocol/", "serve/")) or include in EVERYWHERE
    return include.startswith(("protocol/", *SERVE_BELOW[room])) or include in EVERYWHERE


def allowed_system(room, path, include):
    """May `room` include the system or library header `include`?"""
    if include.startswith("boost/json"):
        return path.startswith(JSON_PLACES)
    if include.startswith("boost/"):
        return room.startswith("serve/")
    if include.startswith(("cuda", "cublas")):
        return room == "engine/backend/cuda/"
    if include.startswith("immintrin.h"):
        return room == "engine/backend/cpu/"
    if include.startswith(("xxhash.h", "openssl/")):
        return room in ("engine/state/", "engine/model/", "serve/http/")
    if OS_HEADERS.match(include):
        if room in ("engine/host/", "engine/", "serve/", "serve/supervisor/"):
            return True
        if path.startswith("serve/monitor/hardware"):
            return True
        if room == "engine/backend/cuda/":
            return include == "dlfcn.h"  # cuBLAS is looked up when the program runs
        if room == "engine/backend/cpu/":
            return include in ("sched.h", "pthread.h", "sys/mman.h", "linux/futex.h", "sys/syscall.h", "unistd.h")
        return room in ("engine/state/", "engine/model/") and include in FILE_HEADERS
    return "/" not in include  # the standard library


def check(path, source):
    room = room_of(path)
    findings = []
    for number, line in enumerate(source.split("\n"), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if not match:
            continue
        kind, include = match.groups()
        good = allowed_own(room, include) if kind == '"' else allowed_system(room, path, include)
        if not good:
            findings.append(f"{path}:{number}: {room} may not include {include}")
    return findings


def self_test():
    """The test can fail: one planted line for each kind of edge."""
    planted = [
        ("engine/conversation/a.cpp", '#include "engine/state/live_session.hpp"'),
        ("engine/conversation/a.cpp", "#include <unistd.h>"),
        ("engine/state/a.cpp", '#include "protocol/done_line.hpp"'),
        ("engine/backend/cpu/a.cpp", '#include "engine/state/live_session.hpp"'),
        ("engine/model/a.cpp", "#include <cuda_runtime.h>"),
        ("engine/line_loop.cpp", "#include <boost/asio.hpp>"),
        ("serve/text/a.cpp", '#include "serve/api/openai.hpp"'),
        ("serve/text/a.cpp", "#include <boost/json.hpp>"),
        ("serve/api/a.cpp", '#include "strata/engine.hpp"'),
        ("protocol/a.hpp", '#include "strata/core/types.hpp"'),
    ]
    return [f"self-test: {p}: {line} was not found" for p, line in planted if not check(p, line)]


if __name__ == "__main__":
    found = self_test()
    for each in tree.with_suffix(tree.CODE, "include/", "protocol/", "engine/", "serve/"):
        found += check(each, tree.text(each))
    sys.exit(tree.report("includes", found))
