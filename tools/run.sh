#!/usr/bin/env bash
# Installs what is missing, builds, and starts strata-serve with the demo model.
#
#   tools/run.sh [--port P] [strata-serve options]     e.g. tools/run.sh --model path/to/model.gguf
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh build
tools/build.sh strata-engine strata-serve

for argument in "$@"; do
    case $argument in
        --model | --model=*) exec build/bin/strata-serve "$@" ;;
    esac
done
exec build/bin/strata-serve --model demo "$@"
