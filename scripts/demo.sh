#!/usr/bin/env bash
# Goes from nothing to a trained model: builds, then runs `plimsoll demo`, which draws receipts, plans, trains a small
# LayoutLMv3 from scratch inside a memory budget, and draws what it found on held-out pages. `--short` does less of the
# same, for checks. PLIMSOLL_PRESET names the build whose program runs, "program" unless said.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install_dependencies.sh
preset=${PLIMSOLL_PRESET:-program}
scripts/build.sh "$preset"
directory=demo
if [ "${1:-}" = --short ]; then directory=demo/short; fi
rm -rf "$directory"
"build/$preset/plimsoll" demo --output-dir "$directory" "$@"
