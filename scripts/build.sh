#!/usr/bin/env bash
# Configures and builds one CMake preset, with ccache if it is installed: scripts/build.sh [PRESET [--target NAME...]]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
targets=("${@:2}")
refuse() {
  echo "error: $1; scripts/build.sh [PRESET [--target NAME...]], PRESET one of release, program, dev, asan, tsan, fuzz" >&2
  exit 2
}
if ! [[ $preset =~ ^[a-z]+$ ]]; then refuse "'$preset' is no preset"; fi
if [ ${#targets[@]} -gt 0 ]; then
  if [ "${targets[0]}" != --target ]; then refuse "'${targets[0]}' is not understood"; fi
  if [ ${#targets[@]} -eq 1 ]; then refuse "--target names no target"; fi
  for name in "${targets[@]:1}"; do
    if [[ $name == -* ]]; then refuse "'$name' is not understood"; fi
  done
fi
options=()
if command -v ccache >/dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache); fi
# With nvcc, kernels are compiled for the GPU that is here, and for all that are supported where there is none, unless
# this variable says otherwise ("90", "all").
if [ -n "${PLIMSOLL_CUDA_ARCHITECTURES:-}" ]; then options+=("-DPLIMSOLL_CUDA_ARCHITECTURES=$PLIMSOLL_CUDA_ARCHITECTURES"); fi
# ON compiles several files of a folder at a time, as the preset "program" does: all is built sooner, what changes later.
if [ -n "${PLIMSOLL_UNITY:-}" ]; then options+=("-DPLIMSOLL_UNITY=$PLIMSOLL_UNITY"); fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "configuring ($preset)"
cmake --preset "$preset" "${options[@]}" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
echo "building ($preset)"
cmake --build --preset "$preset" "${targets[@]}"
