#!/usr/bin/env bash
# Configures and builds the release preset into build/; arguments are targets (default: everything). With
# STRATA_TESTS=ON in the environment a build without its tests is an error. STRATA_CUDA there is ON, OFF or
# AUTO (the default: the CUDA backend is compiled wherever nvcc is).
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/env.sh

cmake --preset release -DSTRATA_TESTS="${STRATA_TESTS:-AUTO}" -DSTRATA_CUDA="${STRATA_CUDA:-AUTO}" --log-level=NOTICE
if (($#)); then
    cmake --build build --target "$@"
else
    cmake --build build
fi
