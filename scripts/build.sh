#!/usr/bin/env bash
# Configures and builds one CMake preset (release unless named), with ccache where it is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
options=()
if command -v ccache >/dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "configuring ($preset)"
cmake --preset "$preset" "${options[@]}" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
echo "building ($preset)"
cmake --build --preset "$preset" "${@:2}"
