#!/usr/bin/env bash
# Installs what is missing, builds everything (the CUDA backend wherever nvcc is), and runs every test that
# needs no GPU.
#
#   tools/test.sh [ctest options]     e.g. tools/test.sh -L fast, tools/test.sh -R tokenizer
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh test
source tools/env.sh
STRATA_TESTS=ON tools/build.sh
exec ctest --test-dir build --label-exclude '^gpu$' --output-on-failure -j "$(nproc)" "$@"
