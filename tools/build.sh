#!/usr/bin/env bash
# Configures and builds the release preset into build/; arguments are targets (default: everything).
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/env.sh

[[ -f build/build.ninja ]] || cmake --preset release
if (($#)); then
    cmake --build build --target "$@"
else
    cmake --build build
fi
