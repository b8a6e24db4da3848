#!/usr/bin/env python3
"""tools/run.sh: what it builds and starts, on machines with and without a GPU and CUDA's compiler.

usage: run_script_test.py SOURCE_DIR

The script runs in a tree of its own, where the scripts it calls and the server say what they were given.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

RUN_S = 30

STUBS = {
    "tools/setup.sh": 'echo "setup $*"',
    "tools/build.sh": 'echo "build $* cuda=$STRATA_CUDA"',
    "build/bin/strata-serve": 'echo "serve $*"',
}
GPU = 'echo "GPU 0: NVIDIA H200 (UUID: GPU-0)"'
NO_GPU = 'echo "No devices were found"; exit 6'

BUILD_CPU = "build strata-engine strata-serve cuda=OFF"
BUILD_CUDA = "build strata-engine strata-serve cuda=ON"
# (nvidia-smi or None, is there an nvcc, arguments, status, lines of stdout, words of stderr)
CASES = (
    (None, False, [], 0, ["setup build", BUILD_CPU, "serve --model demo"], []),
    (None, True, [], 0, ["setup build", BUILD_CPU, "serve --model demo"], []),
    (NO_GPU, True, [], 0, ["setup build", BUILD_CPU, "serve --model demo"], []),
    (GPU, True, ["--port", "1"], 0, ["setup build", BUILD_CUDA, "serve --model demo --port 1"], []),
    (GPU, False, [], 0, ["setup build", BUILD_CPU, "serve --model demo"],
     ["there is a GPU", "CUDA Toolkit 13", "nvcc"]),
    (None, True, ["--cuda", "--model", "a b"], 0, ["setup build", BUILD_CUDA, "serve --model a b"], []),
    (None, True, ["--model=x", "--cuda"], 0, ["setup build", BUILD_CUDA, "serve --model=x"], []),
    (None, False, ["--cuda"], 1, [], ["--cuda", "nvcc", "CUDA Toolkit 13", "CUDA_HOME"]),
    (GPU, False, ["--cuda"], 1, [], ["--cuda", "nvcc"]),
)


def write_program(path, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o700)


def run(source, folder, smi, nvcc, arguments):
    """-> the finished process."""
    tree, path = folder / "tree", folder / "path"
    for name, body in STUBS.items():
        write_program(tree / name, body)
    shutil.copy(source / "tools/run.sh", tree / "tools/run.sh")
    for tool in ("bash", "cat", "dirname", "grep"):
        path.mkdir(exist_ok=True)
        (path / tool).symlink_to(shutil.which(tool))
    if smi:
        write_program(path / "nvidia-smi", smi)
    if nvcc:
        write_program(folder / "cuda/bin/nvcc", "exit 0")
    environment = {"PATH": str(path), "CUDA_HOME": str(folder / "cuda")}
    return subprocess.run([tree / "tools/run.sh", *arguments], capture_output=True, text=True, timeout=RUN_S,
                          env=environment)


def judged(source, case):
    """-> what is wrong, or None."""
    smi, nvcc, arguments, status, lines, words = case
    with tempfile.TemporaryDirectory(prefix="strata-run-") as folder:
        result = run(source, pathlib.Path(folder), smi, nvcc, arguments)
    missing = [word for word in words if word not in result.stderr]
    good = result.returncode == status and result.stdout.split("\n")[:-1] == lines and not missing
    if good and (words or not result.stderr):
        return None
    return f"{case}: status {result.returncode}, {result.stdout!r}, {result.stderr!r}"


def help_is_told(source):
    """--help says what --cuda does and builds nothing."""
    with tempfile.TemporaryDirectory(prefix="strata-run-") as folder:
        result = run(source, pathlib.Path(folder), GPU, True, ["--port", "1", "--help"])
    good = result.returncode == 0 and "--cuda" in result.stdout and "GPU" in result.stdout
    return None if good and "setup" not in result.stdout else f"--help: {result.stdout!r}"


def main():
    source = pathlib.Path(sys.argv[1])
    found = [problem for case in CASES if (problem := judged(source, case))]
    found += [problem for problem in (help_is_told(source),) if problem]
    print("\n".join(found))
    print(f"{len(CASES) + 1} runs, {len(found)} wrong")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
