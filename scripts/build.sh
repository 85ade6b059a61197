#!/usr/bin/env bash
# Configures and builds one CMake preset (release unless named), with ccache where it is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
options=()
if command -v ccache >/dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache); fi
# GPUs to compile for, where there is nvcc: all that are supported unless this says fewer ("90").
if [ -n "${PLIMSOLL_CUDA_ARCHITECTURES:-}" ]; then options+=("-DPLIMSOLL_CUDA_ARCHITECTURES=$PLIMSOLL_CUDA_ARCHITECTURES"); fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "configuring ($preset)"
cmake --preset "$preset" "${options[@]}" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
echo "building ($preset)"
cmake --build --preset "$preset" "${@:2}"
