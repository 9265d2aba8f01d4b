#!/usr/bin/env bash
# Installs what is missing, builds, makes a tiny GLM-5-architecture checkpoint and fine-tunes it on the CPU.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install_dependencies.sh
cmake --preset cpu
cmake --build --preset cpu --target glmtune
glmtune=build/cpu/glmtune

rm -rf build/demo
mkdir -p build/demo
"$glmtune" init examples/tiny/config.json build/demo/model --seed 1
"$glmtune" recipes/tiny_chat_cpu.yaml

log=build/demo/checkpoints/training.jsonl
first=$(head -1 "$log" | sed 's/.*"loss": \([0-9.]*\).*/\1/')
last=$(tail -1 "$log" | sed 's/.*"loss": \([0-9.]*\).*/\1/')
out=$(readlink -f build/demo/checkpoints/LATEST)/model/consolidated
cat <<TEXT

Loss fell from $first to $last over $(wc -l <"$log") steps (every step: $log).
The fine-tuned Hugging Face folder: $out

Next:
  $glmtune inspect $out
  $glmtune preview recipes/tiny_chat_cpu.yaml --rows 1       # what is trained on, token by token
  $glmtune check recipes/tiny_chat_cpu.yaml                  # what a recipe resolves to
  $glmtune recipes/tiny_chat_cpu.yaml --step_scheduler.max_steps 200 --checkpoint.checkpoint_dir build/demo/longer
  your own run: copy recipes/tiny_chat_cpu.yaml, change the model and the data, read docs/recipe.md
TEXT
