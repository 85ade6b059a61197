#!/usr/bin/env bash
# Goes from nothing to a trained model: builds, then runs `plimsoll demo`, which draws receipts, plans, trains a small
# LayoutLMv3 from scratch inside a memory budget, and draws what it found on held-out pages. `--short` does less of the
# same, for checks.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install_dependencies.sh
scripts/build.sh program
directory=demo
if [ "${1:-}" = --short ]; then directory=demo/short; fi
rm -rf "$directory"
build/program/plimsoll demo --output-dir "$directory" "$@"
