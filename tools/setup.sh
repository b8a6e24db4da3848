#!/usr/bin/env bash
# Installs what is missing on Debian 12 and leaves alone what is there.
#
#   tools/setup.sh build   what building and running needs
#   tools/setup.sh test    that, and what the tests need (Node 20, Chromium, clang, numpy, jinja2)
#
# Packages come from Debian. Debian's Node is 18; where the machine's is older than 20, npm's `node`
# package puts Node 20 under build/node, and tools/env.sh puts it first in PATH.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly node_version=20.20.2
build_packages=(
    build-essential cmake ninja-build pkg-config git ca-certificates curl
    libboost1.81-dev libboost-json1.81-dev libxxhash-dev libssl-dev
)
test_packages=(
    catch2 libpcre2-dev python3 python3-numpy python3-jinja2 procps
    clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev chromium
)

what=${1:-build}
case $what in
    build) packages=("${build_packages[@]}") ;;
    test) packages=("${build_packages[@]}" "${test_packages[@]}") ;;
    *)
        echo "setup.sh: unknown part '$what'; allowed: build, test" >&2
        exit 2
        ;;
esac

installed() { [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

missing=()
for package in "${packages[@]}"; do
    installed "$package" || missing+=("$package")
done
# A machine may have Node and npm from elsewhere: only a missing command counts.
if [[ $what == test ]]; then
    command -v node >/dev/null || missing+=(nodejs)
    command -v npm >/dev/null || missing+=(npm)
fi

if ((${#missing[@]})); then
    as_root=()
    if ((EUID != 0)); then
        if ! command -v sudo >/dev/null; then
            echo "setup.sh: these packages are missing and need root: apt-get install ${missing[*]}" >&2
            exit 1
        fi
        as_root=(sudo)
    fi
    echo "setup: installing ${missing[*]}"
    "${as_root[@]}" apt-get update -q
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -q --no-install-recommends "${missing[@]}"
fi

if [[ $what == test ]]; then
    major=$(node --version | sed 's/^v\([0-9]*\).*/\1/')
    if ((major < 20)) && [[ ! -x build/node/node_modules/node/bin/node ]]; then
        echo "setup: Node $(node --version) is older than 20; installing Node $node_version under build/node"
        mkdir -p build/node
        npm install --prefix build/node --no-audit --no-fund --no-package-lock "node@$node_version"
    fi
fi

# promtool checks the page for Prometheus. It is one program of the package `prometheus`, whose
# daemon and web files nobody needs here: the program alone goes under build/.
if [[ $what == test ]] && ! command -v promtool >/dev/null && [[ ! -x build/promtool/usr/bin/promtool ]]; then
    echo "setup: fetching promtool (48 MB) into build/promtool"
    folder=$(mktemp -d)
    (cd "$folder" && apt-get download -q prometheus && dpkg-deb -x prometheus_*.deb files) &&
        mkdir -p build/promtool/usr/bin &&
        cp "$folder/files/usr/bin/promtool" build/promtool/usr/bin/ ||
        echo "setup: promtool could not be fetched; its test is skipped" >&2
    rm -rf "$folder"
fi
