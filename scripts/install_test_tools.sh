#!/usr/bin/env bash
# Installs what only tests use: packages of Debian or Ubuntu, and of Python in .venv. A test whose tool is missing is
# skipped and says so, so this script never fails: where it cannot install, it says what is missing.
set -euo pipefail

packages=(
  chromium       # test/cli/browser_test.cpp opens reports in it
  tesseract-ocr  # the program that bench/ocr.py compares with
  poppler-utils  # pdftotext and pdftoppm, by which PDF files are read
  libopenmpi-dev openmpi-bin  # training by several processes; the build takes it along where it is installed
)

cd "$(dirname "$0")/.."
source scripts/packages.sh
mapfile -t missing < <(missing_packages "${packages[@]}")
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if [ "${#missing[@]}" -eq 0 ]; then
  echo "test tools: all ${#packages[@]} packages are installed"
elif command -v apt-get >/dev/null && install_packages "${missing[@]}" >"$log" 2>&1; then
  echo "test tools: installed ${missing[*]}"
else
  tail -n 5 "$log"
  echo "test tools: SKIPPED, ${missing[*]} cannot be installed here; the tests that need it will be skipped"
fi

# The Python packages whose readers open what Plimsoll writes; tests take the interpreter of .venv where there is one.
modules=(pillow==13.0.0 transformers==5.17.0 datasets tensorboard label-studio-sdk pypdfium2)
made=
[ -x .venv/bin/python ] || made=yes
if command -v python3 >/dev/null && { [ -z "$made" ] || python3 -m venv .venv >"$log" 2>&1; } \
  && timeout 600 .venv/bin/pip install --quiet "${modules[@]}" >"$log" 2>&1; then
  echo "test tools: ${modules[*]} are in .venv"
else
  tail -n 3 "$log"
  [ -z "$made" ] || rm -rf .venv  # one that was there keeps what it has
  echo "test tools: SKIPPED, ${modules[*]} cannot be installed here; the tests that need them will be skipped"
fi
