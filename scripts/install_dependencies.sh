#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages that Plimsoll needs to build and run: only missing ones, through sudo if the
# user is not root. Does nothing if everything is installed.
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config            # the build
  libfmt-dev nlohmann-json3-dev libcli11-dev libtomlplusplus-dev libpugixml-dev  # text, JSON, options, TOML, XML
  libdnnl-dev libhwy-dev                      # matrix products, portable SIMD
  libleptonica-dev libjpeg-dev libpng-dev libcairo2-dev libfontconfig-dev libpcre2-dev zlib1g-dev libxxhash-dev
  libtesseract-dev tesseract-ocr-eng          # reading text from scans
  libgtest-dev libgmock-dev libbenchmark-dev  # tests and benchmarks
  fonts-dejavu-core fonts-liberation          # the fonts of drawn receipts
)

source "$(dirname "$0")/packages.sh"
mapfile -t missing < <(missing_packages "${packages[@]}")
if [ "${#missing[@]}" -eq 0 ]; then
  echo "dependencies: all ${#packages[@]} packages are installed"
  exit 0
fi

if ! command -v apt-get >/dev/null; then
  echo "error: apt-get is missing; install the equivalents of these by hand: ${missing[*]}" >&2
  exit 5
fi
if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
  echo "error: not root and no sudo; as root, run: apt-get install ${missing[*]}" >&2
  exit 5
fi

echo "dependencies: installing ${#missing[@]} of ${#packages[@]} packages: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! install_packages "${missing[@]}" >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "error: apt-get failed; what it said stands above" >&2
  exit 5
fi
echo "dependencies: done"
