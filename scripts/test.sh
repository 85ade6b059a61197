#!/usr/bin/env bash
# Builds and runs every test. `scripts/test.sh asan` does so under the address and undefined-behaviour sanitizers.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
scripts/install_dependencies.sh
scripts/build.sh "$preset"
ctest --preset "$preset" --parallel "$(nproc)"
