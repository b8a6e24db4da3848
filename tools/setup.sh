#!/usr/bin/env bash
# Installs what building, running and testing Strata needs on Debian 12, and nothing that is there already.
set -euo pipefail

packages=(
    build-essential cmake ninja-build ccache pkg-config git curl ca-certificates
    libboost1.81-dev libboost-json1.81-dev libxxhash-dev libssl-dev libpcre2-dev catch2
    python3 python3-numpy python3-jinja2
    clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev
)
if [[ ${1:-} != --no-browser ]]; then
    packages+=(chromium)
fi
