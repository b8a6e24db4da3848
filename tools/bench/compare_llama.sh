#!/usr/bin/env bash
# Compares strata-bench with llama.cpp's CPU backend on the demo model, in alternating runs.
#   tools/bench/compare_llama.sh [--build DIR] [--model FILE] [--threads N] [--runs N] [--out DIR]
# llama.cpp comes as the prebuilt package of node-llama-cpp, pinned by tools/bench/llama/package-lock.json
# and installed under the build folder; Strata itself does not use it. Needs node 20 and npm.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
build="$root/build"
model="$root/tools/demo_model/strata-demo-q8_0.gguf"
threads=2
runs=5
out=""
while [ $# -gt 0 ]; do
    case "$1" in
        --build) build=$(realpath "$2") ;;
        --model) model=$2 ;;
        --threads) threads=$2 ;;
        --runs) runs=$2 ;;
        --out) out=$2 ;;
        *) echo "compare_llama.sh: unknown option '$1'" >&2; exit 2 ;;
    esac
    shift 2
done
out=${out:-$build/compare_llama}

if [ ! -x "$build/bin/strata-bench" ]; then
    echo "compare_llama.sh: $build/bin/strata-bench is missing; build it first (tools/build.sh)" >&2
    exit 2
fi
install="$build/llama"
package="$install/node_modules/@node-llama-cpp/linux-x64"
if [ ! -d "$package" ]; then
    mkdir -p "$install"
    cp "$root/tools/bench/llama/package.json" "$root/tools/bench/llama/package-lock.json" "$install/"
    npm ci --prefix "$install" --ignore-scripts --no-audit --no-fund
fi
exec node "$root/tools/bench/compare_llama.mjs" --bench "$build/bin/strata-bench" \
    --package "$package" --model "$model" --threads "$threads" --runs "$runs" --out "$out"
