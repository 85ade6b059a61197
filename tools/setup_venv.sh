#!/usr/bin/env bash
# Makes .venv at the repository's root with the pinned Python packages of tools/requirements.txt.
# It is needed only to make golden data again or to compare with PyTorch; building and testing need no Python.
#   tools/setup_venv.sh && .venv/bin/python tools/check_parity.py
set -euo pipefail
cd "$(dirname "$0")/.."
python3 -m venv .venv
.venv/bin/python -m pip install --quiet --upgrade pip
.venv/bin/python -m pip install --requirement tools/requirements.txt
.venv/bin/python - <<'PY'
import torch, transformers
print(f"ready: .venv with torch {torch.__version__}, transformers {transformers.__version__}")
PY
