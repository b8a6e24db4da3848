#!/usr/bin/env bash
# Fetches the pinned packages of folder $1 and runs Node's tests in $2 of it, a file or a folder; "types" instead
# checks the types of the page's modules. Exit 77 (CTest shows SKIP) when the packages are not there and no registry
# can be reached.
set -u
cd "$1" || exit 1
if [[ ! node_modules/.package-lock.json -nt package-lock.json ]]; then
    npm ci --no-audit --no-fund || { echo "SKIP: npm cannot fetch the packages of $1"; exit 77; }
fi
if [[ "$2" == types ]]; then
    exec node node_modules/typescript/bin/tsc -p tsconfig.json
fi
exec node --test "$2"
