# Sourced by the other scripts: Node 20 from build/node goes first where setup.sh put it there.
if [[ -x build/node/node_modules/node/bin/node ]]; then
    PATH="$PWD/build/node/node_modules/node/bin:$PATH"
    export PATH
fi
