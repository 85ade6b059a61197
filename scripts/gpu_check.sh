#!/usr/bin/env bash
# Runs all checks that need a GPU: tests, compute-sanitizer, numbers, speed and memory (parts: bench/gpu_check.py).
#   scripts/gpu_check.sh [--only PART …]                                   builds first
#   scripts/gpu_check.sh BUNDLE [--only …]                                 with what scripts/gpu_bundle.sh packed elsewhere
# Writes bench/results/GPU-DATE.json and .md; exits 1 if a bar is missed. Without a GPU it says so and exits 0.
# PLIMSOLL_PYTHON names a Python that has PyTorch and transformers; the default is .venv's, or else python3.
set -euo pipefail
cd "$(dirname "$0")/.."
bundle=
if [ $# -gt 0 ] && [ "${1#--}" = "$1" ]; then bundle=$1; shift; fi
python=${PLIMSOLL_PYTHON:-}
if [ -z "$python" ]; then python=python3; if [ -x .venv/bin/python ]; then python=.venv/bin/python; fi; fi
command -v "$python" >/dev/null || { echo "error: $python is missing; name a Python 3 in PLIMSOLL_PYTHON" >&2; exit 5; }

# This is checked before anything is built or unpacked, because without a GPU there is nothing to do.
reason=$(cd bench && "$python" -c 'import nvidia; print(nvidia.missing_device() or "")')
if [ -n "$reason" ]; then echo "gpu_check: nothing to check, no GPU: $reason"; exit 0; fi

if [ -n "$bundle" ]; then
  [ -f "$bundle" ] || { echo "error: $bundle is not there; scripts/gpu_bundle.sh makes it" >&2; exit 3; }
  mkdir -p build/gpu_bundle
  tar -xzf "$bundle" -C build/gpu_bundle
  programs=build/gpu_bundle/bin tests=build/gpu_bundle/bin/test_gpu
else
  scripts/build.sh release --target plimsoll test_gpu
  programs=build/release tests=build/release/test/gpu/test_gpu
fi
exec "$python" bench/gpu_check.py --plimsoll "$programs/plimsoll" --tests "$tests" --python "$(command -v "$python")" "$@"
