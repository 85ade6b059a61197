#!/usr/bin/env bash
# Prints the processor time that the whole program takes to compile from nothing, without CUDA and ccache, beside that
# of another commit, in turn: scripts/build_time.sh [COMMIT [ROUNDS]]. COMMIT is built as its users built it then.
set -euo pipefail
cd "$(dirname "$0")/.."
commit=${1:-37d7ca1} rounds=${2:-1}
work=$PWD/build/build-time
rm -rf "$work"
mkdir -p "$work/then"
git archive "$commit" | tar -x -C "$work/then"
export CCACHE_DISABLE=1

# Builds the target plimsoll of the sources in $1, with the options after it; prints seconds of user and system time.
seconds() {
  local sources=$1 tree=$work/tree
  shift
  rm -rf "$tree"
  cmake -S "$sources" -B "$tree" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPLIMSOLL_CUDA=OFF "$@" >"$work/log" 2>&1 \
    || { cat "$work/log" >&2; exit 1; }
  local TIMEFORMAT='%U %S'
  { time cmake --build "$tree" --target plimsoll >"$work/log" 2>&1; } 2>"$work/time" || { cat "$work/log" >&2; exit 1; }
  awk '{ printf "%.0f", $1 + $2 }' "$work/time"
}

for round in $(seq "$rounds"); do
  older=$(seconds "$work/then")
  release=$(seconds .)
  program=$(seconds . -DPLIMSOLL_UNITY=ON)
  echo "round $round: $commit $older s; now release $release s, program $program s, $(
    awk -v a="$program" -v b="$older" 'BEGIN { printf "%.2f", a / b }') of $commit's (bar 0.5)"
done
