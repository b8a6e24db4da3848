#!/usr/bin/env bash
# Installs what is missing, builds, and starts strata-serve with the demo model. See usage().
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    cat <<'END'
Installs what is missing, builds, and starts strata-serve.

  tools/run.sh [--cuda] [strata-serve options]     e.g. tools/run.sh --port 9000 --model path/to/model.gguf

Without --model it is the demo model. `build/bin/strata-serve --help` lists all other options.

The CUDA backend is built when this machine has an NVIDIA GPU and CUDA's compiler (nvcc); the engine then
computes on the GPU unless --device cpu is given.
  --cuda    build it also without a GPU here, and stop when there is no compiler for it
END
}

has_gpu() { nvidia-smi -L 2>/dev/null | grep -q '^GPU'; }

has_nvcc() { command -v nvcc >/dev/null || [[ -x ${CUDA_HOME:-/usr/local/cuda}/bin/nvcc ]]; }

how_to_get_nvcc() {
    echo "CUDA's compiler (nvcc) is neither on the PATH nor in ${CUDA_HOME:-/usr/local/cuda}/bin. Install CUDA Toolkit 13:"
    echo "https://developer.nvidia.com/cuda-downloads (Linux, Debian 12, the package cuda-toolkit-13-0),"
    echo "or set CUDA_HOME to where it is."
}

wants_cuda=no
server_options=()
model=(--model demo)
for argument in "$@"; do
    case $argument in
        --help | -h)
            usage
            exit 0
            ;;
        --cuda) wants_cuda=yes ;;
        *)
            server_options+=("$argument")
            [[ $argument == --model || $argument == --model=* ]] && model=()
            ;;
    esac
done

export STRATA_CUDA=OFF
if [[ $wants_cuda == yes ]]; then
    if ! has_nvcc; then
        echo "run.sh: --cuda: $(how_to_get_nvcc)" >&2
        exit 1
    fi
    STRATA_CUDA=ON
elif has_gpu; then
    if has_nvcc; then
        STRATA_CUDA=ON
    else
        echo "run.sh: there is a GPU, but the build is for the CPU alone. $(how_to_get_nvcc)" >&2
    fi
fi

tools/setup.sh build
tools/build.sh strata-engine strata-serve
exec build/bin/strata-serve "${model[@]}" "${server_options[@]}"
