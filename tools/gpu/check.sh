#!/bin/bash
# Checks the CUDA backend on this machine's GPU, then measures it, then prints a short table.
#   tools/gpu/check.sh [BIN]
# BIN: a folder with the binaries strata-bench, strata-engine, ops_*_test, products_test,
# cuda_reference_test (and libboost_json.so.* where it is not installed), built elsewhere from this
# tree; without it they are built here, in build-cuda. OUT, if set, gets one JSON file a model.
set -uo pipefail
cd "$(dirname "$0")/../.."
tests=(ops_rows_test ops_attention_test ops_delta_test ops_moe_test products_test)
bin=${1:-}
if [ -z "$bin" ]; then
    cmake --preset cuda >/dev/null && cmake --build --preset cuda --target strata-bench strata-engine \
        "${tests[@]}" cuda_reference_test || exit 1
    bin=build-cuda/checks
    mkdir -p "$bin"
    cp build-cuda/bin/strata-bench build-cuda/bin/strata-engine build-cuda/tests/{ops_*_test,products_test,cuda_reference_test} "$bin"
fi
bin=$(realpath "$bin")
export LD_LIBRARY_PATH="$bin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
failed=0
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || exit 1
for name in "${tests[@]}"; do
    timeout 200 "$bin/$name" > /tmp/strata-check.txt 2>&1 || failed=1
    echo "== $name: $(tail -2 /tmp/strata-check.txt | tr '\n' ' ')"
done
echo "== the reference models (differences of logits)"
timeout 300 "$bin/cuda_reference_test" > /tmp/strata-reference.txt 2>&1 || failed=1
grep -E "median difference|left out|All tests passed|FAILED" /tmp/strata-reference.txt
if command -v compute-sanitizer >/dev/null; then
    for name in ops_rows_test ops_delta_test ops_moe_test; do
        echo "== memcheck $name: $(timeout 200 compute-sanitizer --tool memcheck --error-exitcode 9 "$bin/$name" 2>&1 | tail -1)"
    done
fi
[ "$failed" = 0 ] || { echo "the checks failed: nothing is measured"; exit 1; }
model=$(mktemp --suffix=.gguf)
trap 'rm -f "$model"' EXIT
for geometry in qwen3-0.6b:f16 qwen3-8b:q8_0 qwen3-8b:q4_k qwen3-8b:iq3_s qwen3-8b:nvfp4 qwen3-30b-a3b:q4_k; do
    python3 tools/bench/make_synthetic_gguf.py "$geometry" "$model" || exit 1
    echo "== $geometry"
    timeout 200 "$bin/strata-bench" --model "$model" --device cuda --chunk 4096 --prefill 2048,8192 --decode 128 \
        --repeat 3 ${OUT:+--json "$OUT/${geometry//:/_}.json"} 2>&1 | tail -3
done
