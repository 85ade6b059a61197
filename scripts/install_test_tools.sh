#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages that only tests use. A test whose tool is missing is skipped and says so, so this
# script never fails: where it cannot install, it says what is missing.
set -euo pipefail

packages=(
  chromium       # test/cli/browser_test.cpp opens reports in it
  tesseract-ocr  # the program that bench/ocr.py compares with
  poppler-utils  # pdftotext and pdftoppm, by which PDF files are read
)

source "$(dirname "$0")/packages.sh"
mapfile -t missing < <(missing_packages "${packages[@]}")
if [ "${#missing[@]}" -eq 0 ]; then
  echo "test tools: all ${#packages[@]} packages are installed"
  exit 0
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "test tools: installing ${missing[*]}"
if command -v apt-get >/dev/null && install_packages "${missing[@]}" >"$log" 2>&1; then
  echo "test tools: done"
else
  tail -n 5 "$log"
  echo "test tools: SKIPPED, ${missing[*]} cannot be installed here; the tests that need it will be skipped"
fi
