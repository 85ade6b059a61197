#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages that only tests use. A test whose tool is missing is skipped and says so, so this
# script never fails: where it cannot install, it says what is missing.
set -euo pipefail

packages=(
  chromium       # test/cli/browser_test.cpp opens reports in it
  tesseract-ocr  # the program that bench/ocr.py compares with
  poppler-utils  # pdftotext and pdftoppm, by which PDF files are read
)

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
if [ "${#missing[@]}" -eq 0 ]; then
  echo "test tools: all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then as_root=(sudo -n); fi
install() {
  command -v apt-get >/dev/null || return 1
  "${as_root[@]}" apt-get update || return 1
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "test tools: installing ${missing[*]}"
if install >"$log" 2>&1; then
  echo "test tools: done"
else
  tail -n 5 "$log"
  echo "test tools: SKIPPED, ${missing[*]} cannot be installed here; the tests that need it will be skipped"
fi
