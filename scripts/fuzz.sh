#!/usr/bin/env bash
# Fuzzes the parsers with libFuzzer under the address and undefined-behaviour sanitizers; fails on a finding.
#   scripts/fuzz.sh [SECONDS_EACH] [PARSER…]   600 seconds, and every parser, unless said
#   scripts/fuzz.sh keep [PARSER…]             adds to test/fuzz/corpus what reaches code that nothing there reaches
# New inputs stay in build/fuzz/corpus for the next run; inputs that revealed a fault go to build/fuzz/findings.
# PLIMSOLL_FUZZ_JOBS parsers run at a time (default 2). With PLIMSOLL_UNITY=ON the programs are built sooner and are
# slower: for a short run. Installs clang if it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-600}
shift || true
parsers=("$@")
if [ "${#parsers[@]}" -eq 0 ]; then
  for folder in test/fuzz/corpus/*/; do parsers+=("$(basename "$folder")"); done
fi

has_fuzzer() {
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    clang++-14 -x c++ -fsanitize=fuzzer,address,undefined - -o /dev/null 2>/dev/null
}
if ! has_fuzzer; then
  echo "fuzz: installing clang-14 and its sanitizers"
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
  { "${as_root[@]}" apt-get update && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends clang-14 libclang-rt-14-dev; } >/dev/null || true
  has_fuzzer || { echo "error: clang++-14 cannot link -fsanitize=fuzzer; install clang 14 with compiler-rt" >&2; exit 5; }
fi
scripts/build.sh fuzz
mkdir -p build/fuzz/findings

# Prints one line; returns 1 if there was a finding.
fuzz_one() {
  local parser=$1 seconds=$2 log=build/fuzz/findings/$1.log options=() failed=0
  local learnt=build/fuzz/corpus/$parser dictionary=test/fuzz/dictionaries/$parser.dict
  local corpora=("test/fuzz/corpus/$parser")
  mkdir -p "$learnt"
  rm -f "build/fuzz/findings/$parser"-*
  if [ -e "$dictionary" ]; then options+=("-dict=$dictionary"); fi
  if [ "$parser" = log ]; then corpora+=(test/doctor/logs); fi
  "build/fuzz/test/fuzz/fuzz_$parser" "${options[@]}" -max_total_time="$seconds" -max_len=65536 -timeout=300 -report_slow_units=300 \
    -malloc_limit_mb=64 -rss_limit_mb=1024 -print_final_stats=1 -artifact_prefix="build/fuzz/findings/$parser-" \
    "$learnt" "${corpora[@]}" >"$log" 2>&1 || failed=1
  local found executions covered
  found=$(find build/fuzz/findings -name "$parser-*" | wc -l)
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  covered=$(sed -n 's/.* cov: \([0-9]*\) ft: \([0-9]*\) corp: \([0-9]*\)\/.*/\1 edges, \2 features, corpus \3/p' "$log" | tail -n 1)
  printf '%-13s %9s executions, %s, findings %d\n' "$parser" "${executions:-?}" "${covered:-?}" "$found"
  if [ "$failed" -eq 1 ]; then
    grep -m 3 -E 'ERROR|SUMMARY|runtime error|what\(\)|Assertion' "$log" || tail -n 5 "$log"
    find build/fuzz/findings -name "$parser-*"
  fi
  return "$failed"
}
export -f fuzz_one
export UBSAN_OPTIONS=print_stacktrace=1

if [ "$what" = keep ]; then
  for parser in "${parsers[@]}"; do
    before=$(find "test/fuzz/corpus/$parser" -type f | wc -l)
    "build/fuzz/test/fuzz/fuzz_$parser" -set_cover_merge=1 -use_counters=0 -max_len=5000 \
      "test/fuzz/corpus/$parser" "build/fuzz/corpus/$parser" >"build/fuzz/findings/merge.log" 2>&1
    echo "$parser: $before inputs, now $(find "test/fuzz/corpus/$parser" -type f | wc -l)"
  done
  exit 0
fi
printf '%s\n' "${parsers[@]}" | xargs -P "${PLIMSOLL_FUZZ_JOBS:-2}" -I {} bash -c 'fuzz_one "$1" "$2"' _ {} "$what" ||
  { echo "error: a parser has a finding; add its input to test/fuzz/corpus and mend the parser" >&2; exit 1; }
