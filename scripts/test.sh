#!/usr/bin/env bash
# Builds and runs every test, and counts their cases. `scripts/test.sh asan` runs them under the address and
# undefined-behaviour sanitizers.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
scripts/install_dependencies.sh
scripts/build.sh "$preset"
tallies=build/$preset/Testing/tallies
rm -f "$tallies"/*
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Whatever saves waits for the disk, and most tests save: they do so in memory where /dev/shm has room and runs programs.
if [ -z "${TMPDIR:-}" ] && [ "$(df --output=avail -k /dev/shm 2>/dev/null | tail -1)" -gt 4194304 ] 2>/dev/null; then
  probe=$(mktemp -p /dev/shm) && printf '#!/bin/sh\n' >"$probe" && chmod +x "$probe"
  if "$probe" 2>/dev/null; then export TMPDIR=/dev/shm; fi
  rm -f "$probe"
fi
# Freed memory that the address sanitizer holds back is the process's own to a plan: 256 MiB of it, as is usual, would
# leave a program of many cases no budget.
export ASAN_OPTIONS=${ASAN_OPTIONS:-quarantine_size_mb=32}
status=0
# One more than there are processors: some tests wait for the disk or for a program that sleeps.
ctest --preset "$preset" --parallel "$(($(nproc) + 1))" | tee "$log" || status=$?

# A ctest test without a tally is one case. A program that crashed has begun a case without ending it, and has cases
# that never began: all of them failed.
awk -v tallies="$tallies" '
  function add(what) { count[what]++ }
  FILENAME == log_file {
    if (match($0, /Test +#[0-9]+: [^ ]+/)) {
      split(substr($0, RSTART, RLENGTH), words, " "); name = words[length(words)]
      if (system("test -e " tallies "/" name) == 0) next
      if (/Skipped/) { add("skipped"); print "SKIPPED: " name } else if (/Passed/) add("passed"); else { add("failed"); print "FAILED: " name }
    }
    next
  }
  $1 == "cases" { expected += $2; next }
  $1 == "begin" { begun[FILENAME] = $2; next }
  {
    add($1); ended++; begun[FILENAME] = ""
    if ($1 == "failed") print "FAILED: " $2
    if ($1 == "skipped") print "SKIPPED: " $2
  }
  END {
    for (file in begun) if (begun[file] != "") print "CRASHED: " begun[file]
    count["failed"] += expected - ended
    printf "%d passed, %d failed, %d skipped\n", count["passed"], count["failed"], count["skipped"]
    exit count["failed"] > 0
  }' log_file="$log" "$log" "$tallies"/* || status=1
exit "$status"
