#!/usr/bin/env bash
# Compiles the kernels that hold the most in registers for every supported GPU and reports them as ptxas does: none may spill to
# memory, nothing may warn. attention_grad_warpgroup may spill up to 48 bytes: its three warpgroups
# have all registers of a multiprocessor. It takes minutes for each and needs nvcc, but no GPU.
#   scripts/check_spills.sh [ARCHITECTURE …]      75 80 86 89 90 unless said; exits 1 if a kernel spills or nvcc warns
set -euo pipefail
cd "$(dirname "$0")/.."
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[ -x "$nvcc" ] || { echo "error: nvcc is missing; install the CUDA toolkit" >&2; exit 5; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
[ $# -gt 0 ] || set -- 75 80 86 89 90
for architecture in "$@"; do
  kernels=(attention_bias attention attention_grad normalisation elementwise embedding loss linear)
  [ "$architecture" -ne 90 ] || kernels+=(attention_warpgroup attention_grad_warpgroup)
  for kernel in "${kernels[@]}"; do
    target=sm_$architecture
    [ "${kernel%_warpgroup}" = "$kernel" ] || target=sm_90a
    # The options are those of cmake/PlimsollTargets.cmake and src/backend/cuda/CMakeLists.txt.
    "$nvcc" -std=c++20 -O3 -DNDEBUG -fmad=false --expt-relaxed-constexpr -Werror=all-warnings -Isrc "-arch=$target" \
      -Xptxas -v -c "src/backend/cuda/$kernel.cu" -o /dev/null >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
    all=$(grep -c 'bytes spill stores' "$log")
    spill=$(grep 'bytes spill stores' "$log" | grep -vc ' 0 bytes spill stores, 0 bytes spill loads' || true)
    most=$(grep -o 'Used [0-9]* registers' "$log" | grep -o '[0-9]*' | sort -n | tail -1)
    echo "sm_$architecture $kernel: $all kernels, $spill spill, at most $most registers"
    [ "$spill" -eq 0 ] && continue
    worst=$(grep -o '[0-9]* bytes spill stores' "$log" | sort -n | tail -1 | grep -o '^[0-9]*')
    [ "$kernel" = attention_grad_warpgroup ] && [ "$worst" -le 48 ] && continue
    awk '/Function properties/ { name = $NF } /bytes spill/ && !/ 0 bytes spill stores, 0 bytes/ { print "  " name ": " $0 }' "$log" >&2
    status=1
  done
done
exit $status
