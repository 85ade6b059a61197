#!/usr/bin/env bash
# Goes from nothing to a trained model: builds, draws receipts, plans, trains a small LayoutLMv3 from scratch inside a
# memory budget, evaluates it on held-out pages and draws what it found. `--short` does less of the same, for checks.
set -euo pipefail
cd "$(dirname "$0")/.."

pages=2400 epochs=5 budget=128MiB model=layoutlmv3-tiny directory=demo
if [ "${1:-}" = --short ]; then pages=60 epochs=2 directory=demo/short; fi

scripts/install_dependencies.sh
scripts/build.sh release --target plimsoll
plimsoll=build/release/plimsoll
rm -rf "$directory"
mkdir -p "$directory"

echo
echo "== 1. draw $pages receipts and forms, a tenth held out"
"$plimsoll" synth --output "$directory/pages" --count "$pages" --seed 7

echo
echo "== 2. check them, and plan the run: what will it need?"
"$plimsoll" check --model "$model" --data "$directory/pages/train.jsonl"
options=(--model "$model" --data "$directory/pages/train.jsonl" --eval-data "$directory/pages/validation.jsonl"
  --budget "$budget" --train-batch-size 4 --num-train-epochs "$epochs" --learning-rate 3e-3 --warmup-ratio 0.05)
"$plimsoll" plan "${options[@]}"

echo
echo "== 3. train from scratch inside $budget"
"$plimsoll" train "${options[@]}" --output-dir "$directory/run" --eval-steps 100000 --save-steps 0 \
  | tee >(tail -n 1 >"$directory/peak.txt")

echo
echo "== 4. label held-out pages and draw what was found"
"$plimsoll" predict --model "$directory/run" --data "$directory/pages/validation.jsonl" \
  --output "$directory/predictions.jsonl" --draw "$directory/pictures" --draw-limit 5

echo
echo "== 5. draw the whole run as one HTML file"
"$plimsoll" report "$directory/run"

picture=$(find "$directory/pictures" -name '*.png' | sort | head -n 1)
echo
cat "$directory/peak.txt"
echo "A page with its predicted fields: $picture"
echo "The whole story of the run:       $directory/run/report.html"
echo
echo "Next, your own data (JSONL, one page per line: image, words, boxes, labels):"
echo "  $plimsoll check --model microsoft-layoutlmv3-base-directory --data pages.jsonl"
echo "  $plimsoll train --model microsoft-layoutlmv3-base-directory --data pages.jsonl --output-dir run --budget 4GiB"
