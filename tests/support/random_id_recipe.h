#pragma once
// A recipe that trains the golden checkpoint on random ids: epochs of seven packs, shuffled, four
// packs a step (then three).
#include <cstdint>
#include <string>

#include "base/cat.h"

namespace glmtune {

struct RandomIdRecipe {
  std::string checkpoint_dir;
  std::int64_t steps = 0;
  std::int64_t every = 0;  // a save after so many steps
  std::int64_t epochs = 10;
  std::int64_t tokens = 24;  // of a pack
  std::int64_t warmup_steps = 2;
  std::string dtype = "float32";
  std::string checkpoint = {};  // more keys of that section: "key: value, "
  std::string more = {};        // more sections
};

inline std::string yaml(const RandomIdRecipe& r) {
  return cat(R"(
recipe: TrainFinetuneRecipeForNextTokenPrediction
seed: 5
step_scheduler: {global_batch_size: 4, local_batch_size: 2, max_steps: )",
             r.steps, ", num_epochs: ", r.epochs, ", ckpt_every_steps: ", r.every,
             R"(, save_checkpoint_every_epoch: false}
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained
  pretrained_model_name_or_path: )",
             GLMTUNE_FIXTURES, "/golden/indexshare\n  torch_dtype: ", r.dtype, R"(
  gate_bias_update_factor: 1e-3
dataset: {_target_: nemo_automodel.components.datasets.llm.mock_iterable_dataset.MockIterableDataset, vocab_size: 320, seq_len: )",
             r.tokens, R"(, num_samples: 7}
dataloader: {_target_: torchdata.stateful_dataloader.StatefulDataLoader, shuffle: true}
optimizer: {_target_: torch.optim.AdamW, lr: 1e-3}
lr_scheduler: {lr_warmup_steps: )",
             r.warmup_steps, R"(, lr_decay_style: cosine}
checkpoint: {enabled: true, )",
             r.checkpoint, "checkpoint_dir: ", r.checkpoint_dir, "}\n", r.more);
}

}  // namespace glmtune
