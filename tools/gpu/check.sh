#!/bin/bash
# Checks the CUDA backend on this machine's GPU, then measures it, then looks for faults of memory and
# of order. Prints a short table.
#   tools/gpu/check.sh [BIN]
# BIN: a folder with the programs (`programs` and `tests` below, cuda_reference_test and rates, and
# libboost_json.so.* where it is not installed), built elsewhere from this
# tree; without it they are built here, in build-cuda. OUT, if set, gets the whole output of every
# part. SANITIZE=0 leaves compute-sanitizer, the longest part, out.
set -uo pipefail
cd "$(dirname "$0")/../.."
tests=(row_layer_test products_test ops_rows_test ops_largest_test ops_shortlist_test ops_arrival_test ops_attention_test kv_rows_test
    ops_delta_test ops_moe_test sampled_model_test)
programs=(strata-bench strata-engine strata-serve)
bin=${1:-}
if [ -z "$bin" ]; then
    cmake --preset cuda >/dev/null && cmake --build --preset cuda --target "${programs[@]}" \
        "${tests[@]}" cuda_reference_test || exit 1
    bin=build-cuda/checks
    mkdir -p "$bin"
    cp "${programs[@]/#/build-cuda/bin/}" "${tests[@]/#/build-cuda/tests/}" build-cuda/tests/cuda_reference_test "$bin"
    nvcc -std=c++20 -O3 -arch=native -I. -Iinclude tools/gpu/rates.cu engine/backend/cuda/library_products.cpp \
        -cudart static -ldl -o "$bin/rates" || exit 1
fi
bin=$(realpath "$bin")
out=${OUT:-$(mktemp -d)}
export LD_LIBRARY_PATH="$bin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
demo=$PWD/tools/demo_model/strata-demo-q8_0.gguf
failed=0
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || exit 1

for name in "${tests[@]}"; do
    timeout 200 "$bin/$name" > "$out/test.txt" 2>&1 || { failed=1; cat "$out/test.txt" >> "$out/failed.txt"; }
    echo "== $name: $(tail -2 "$out/test.txt" | tr '\n' ' ')"
done
echo "== the reference models (differences of logits)"
timeout 300 "$bin/cuda_reference_test" > "$out/reference.txt" 2>&1 || failed=1
grep -E "median difference|left out|All tests passed|FAILED" "$out/reference.txt"

echo "== parity of the conversation cache, the demo model"
parity() {
    local words="$*" said
    said="$out/parity_${words// /_}.txt"
    timeout 120 python3 tools/conversation_cache_parity.py --engine "$bin/strata-engine" --server "$bin/strata-serve" \
        --model "$demo" --scenario "$@" > "$said" 2>&1 && echo "$words passed" || { echo "$words FAILED: $(tail -1 "$said")"; false; }
}
export -f parity; export bin demo out
printf '%s\n' reuse exchange pressure oversized admission root flood supersede steering identity release \
    "reuse --kv int8" "exchange --kv int8" "identity --kv int8" |
    xargs -P 6 -I{} bash -c 'parity {}' || failed=1

echo "== strata-serve --device cuda"
"$bin/strata-serve" --model "$demo" --device cuda --port 18471 > "$out/serve.txt" 2>&1 &
server=$!
python3 tools/gpu/chat_once.py http://127.0.0.1:18471 || failed=1
kill "$server" && wait "$server"

[ "$failed" = 0 ] || { echo "the checks failed: nothing is measured"; exit 1; }

echo "== rates of this machine"
"$bin/rates" || { echo "the rates failed: nothing is measured"; exit 1; }

measure() {
    echo "== $1"
    timeout 120 "$bin/strata-bench" --synthetic "$1" --device cuda --chunk 4096 "${@:2}" 2>&1 | grep -vE "^test|^$"
}
for geometry in qwen3-0.6b:f16 qwen3-0.6b:q8_0 qwen3-8b:q8_0 qwen3-8b:q4_k qwen3-8b:iq3_s qwen3-8b:nvfp4 \
    qwen3-30b-a3b:q4_k qwen3.5-9b:q8_0 qwen3-next-80b-a3b:q4_k; do
    measure "$geometry" --prefill 46,2048,8192 --decode 128 --repeat 2
done
for geometry in qwen3-8b:q4_k qwen3-next-80b-a3b:q4_k; do
    measure "$geometry" --cache 65536 --repeat 2
done
measure qwen3-8b:q4_k --prefill 0 --decode 256 --repeat 5 \
    --sampling greedy,all,all:logits,top-k,top-k:logits,penalties,penalties:logits
measure qwen3-8b:q4_k --kv int8 --prefill 8192 --decode 128 --repeat 2
measure qwen3-8b:q4_k --kv int8 --cache 65536 --repeat 2

if [ "${SANITIZE:-1}" = 1 ] && command -v compute-sanitizer >/dev/null; then
    sanitize() {
        echo "$1 $2: $(timeout 150 compute-sanitizer --tool "$1" --error-exitcode 9 "$bin/$2" 2>&1 | grep -E 'SUMMARY|hazards' | tail -1)"
    }
    export -f sanitize
    echo "== compute-sanitizer"
    printf '%s\n' "memcheck ops_rows_test" "memcheck ops_delta_test" "memcheck ops_moe_test" "memcheck row_layer_test" \
        "memcheck ops_largest_test" "racecheck ops_largest_test" "initcheck ops_largest_test" \
        "racecheck ops_rows_test" "racecheck ops_delta_test" "racecheck row_layer_test" "initcheck row_layer_test" \
        "synccheck row_layer_test" "synccheck ops_delta_test" "memcheck ops_attention_test" "racecheck ops_attention_test" \
        "synccheck ops_attention_test" | xargs -P 10 -I{} bash -c 'sanitize {}'
fi
