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
loss_of() { printf '%.4f' "$(sed 's/.*"\(val_\)\{0,1\}loss": \([0-9.eE+-]*\).*/\2/' <<<"$1")"; }
first=$(loss_of "$(head -1 "$log")")
last=$(loss_of "$(tail -1 "$log")")
final=$(readlink -f build/demo/checkpoints/LATEST)
best=$(readlink -f build/demo/checkpoints/LOWEST_VAL)
val_loss_in() { loss_of "$(grep '"val_loss"' "$1/losses.json")"; }
out=$final/model/consolidated
cat <<TEXT

Training loss fell from $first to $last over $(wc -l <"$log") steps (every step: $log).
Validation loss: $(val_loss_in "$final") in the last checkpoint, $(val_loss_in "$best") in the best one, ${best#"$PWD/"} (LOWEST_VAL);
with a few conversations to learn from, a model soon learns them by heart: more data, or fewer steps, help.
The fine-tuned Hugging Face folder: $out

Next:
  $glmtune inspect $out
  $glmtune preview recipes/tiny_chat_cpu.yaml --rows 1 --tokens   # what is trained on, token by token
  $glmtune check recipes/tiny_chat_cpu.yaml                  # what a recipe resolves to
  $glmtune recipes/tiny_chat_cpu.yaml --step_scheduler.max_steps 200 --checkpoint.checkpoint_dir build/demo-longer
  your own run: copy recipes/tiny_chat_cpu.yaml, change the model and the data, read docs/recipe.md
TEXT
