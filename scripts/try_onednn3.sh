#!/usr/bin/env bash
# Builds the program with oneDNN 3 beside the installed version, tests it, trains a short run with it, and prints the
# linear products of base with both libraries: scripts/try_onednn3.sh [THREADS] [REPETITIONS]
#
# oneDNN 3 comes from PyPI (with libgomp, as Debian builds it) into build/onednn3; nothing outside build/ changes.
set -euo pipefail
cd "$(dirname "$0")/.."
threads=${1:-$(nproc)} repetitions=${2:-5}
for number in "$threads" "$repetitions"; do
  if ! [[ $number =~ ^[1-9][0-9]*$ ]]; then
    echo "error: '$number' is no count; scripts/try_onednn3.sh [THREADS] [REPETITIONS]" >&2
    exit 2
  fi
done
version=2023.2.0  # oneDNN 3.2
library=build/onednn3 tree=build/onednn3-release
if ! [ -e "$library/lib/libdnnl.so" ]; then
  python3 -m venv "$library"
  "$library/bin/pip" install --quiet "onednn-devel-cpu-gomp==$version" "onednn-cpu-gomp==$version"
fi

options=(-DCMAKE_BUILD_TYPE=Release -DPLIMSOLL_CUDA=OFF)
if command -v ccache >/dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
targets=(plimsoll plimsoll_cpu_products)
cmake -S . -B "$tree" -G Ninja "${options[@]}" "-DPLIMSOLL_DNNL_INCLUDE=$PWD/$library/include" \
  "-DPLIMSOLL_DNNL_LIBRARY=$PWD/$library/lib/libdnnl.so" >"$library/configure.log"
cmake --build "$tree" --target "${targets[@]}" test_backend test_runtime
cmake --preset release >>"$library/configure.log"
cmake --build --preset release --target plimsoll_cpu_products

echo "tests with oneDNN 3"
GOMP_SPINCOUNT=2000 "$tree/test/backend/test_backend" --gtest_brief=1
GOMP_SPINCOUNT=2000 "$tree/test/runtime/test_runtime" --gtest_brief=1
echo "a short run with oneDNN 3, in fp32 and bf16"
pages=$library/pages
rm -rf "$pages" "$library"/run-*
"$tree/plimsoll" synth --output "$pages" --count 40 >"$library/synth.log"
for precision in fp32 bf16; do
  flags=()
  if [ $precision = bf16 ]; then flags=(--bf16); fi
  "$tree/plimsoll" train --model layoutlmv3-tiny --data "$pages/train.jsonl" --output-dir "$library/run-$precision" \
    --max-steps 10 --threads "$threads" "${flags[@]}" | tail -n 2
done

grep -m 1 -E "^flags|^Features" /proc/cpuinfo | tr ' ' '\n' | grep -E "^(avx2|avx512f|avx512_bf16|amx_tile|amx_bf16)$" |
  paste -s -d ' ' | sed 's/^/this processor has: /' || true
for precision in fp32 bf16; do
  for build in release onednn3-release; do
    echo "linear products of base, $precision, $build"
    "build/$build/bench/plimsoll_cpu_products" "$threads" "$repetitions" "$precision" |
      grep -E "the processor's rate|over (709|2836) rows"
  done
done
