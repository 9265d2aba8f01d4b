#pragma once
// Runs of the main job on the golden checkpoint in a folder of the test's own.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/cat.h"
#include "io/files.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "support/random_id_recipe.h"
#include "train/recipe_file.h"
#include "train/trainer.h"

namespace glmtune::train {

namespace fs = std::filesystem;

inline const std::string kGolden = std::string(GLMTUNE_FIXTURES) + "/golden/indexshare";

class Trainer : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::temp_directory_path() / cat("glmtune_trainer_", ::getpid());
    fs::remove_all(dir_);
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }

  static int train(const std::string& yaml, const std::atomic<int>* stop = nullptr) {
    const RecipeFile file =
        parse_recipe(yaml, "test.yaml", {}, [](const std::string&) { return std::nullopt; });
    TrainOptions options;
    options.stop_signal = stop;
    return run_training(file.recipe, options);
  }

  std::string path(const std::string& name) const { return (dir_ / name).string(); }

  // Ten steps on the reference batch, as golden.json's `train` describes them.
  std::string golden_recipe(const std::string& out, const std::string& more = "") const {
    return cat(R"(
recipe: TrainFinetuneRecipeForNextTokenPrediction
seed: 1
step_scheduler: {global_batch_size: 1, local_batch_size: 1, max_steps: 10, num_epochs: 1, ckpt_every_steps: 100}
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained
  pretrained_model_name_or_path: )",
               kGolden, R"(
  torch_dtype: float32
  latent_norm_eps: 1e-6
dataset: {_target_: glmtune.PretokenizedDataset, path: )",
               kGolden, R"(/golden.safetensors}
dataloader: {_target_: torchdata.stateful_dataloader.StatefulDataLoader, shuffle: false}
optimizer: {_target_: torch.optim.AdamW, lr: 1e-3, betas: [0.9, 0.95], eps: 1e-8, weight_decay: 0.01}
clip_grad_norm: {max_norm: 1.0}
checkpoint: {enabled: true, checkpoint_dir: )",
               path(out), "}\n", more);
  }

  std::string mock_recipe(const std::string& out, int steps, int every,
                          const std::string& more = "",
                          const std::string& dtype = "float32") const {
    return yaml({.checkpoint_dir = path(out),
                 .steps = steps,
                 .every = every,
                 .dtype = dtype,
                 .more = more});
  }

  std::vector<io::Value> log(const std::string& out) const {
    std::ifstream in(path(out) + "/training.jsonl");
    std::vector<io::Value> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(io::parse_json(line, "log"));
    return lines;
  }

  fs::path dir_;
};

inline std::string bytes(const std::string& path) {
  return io::read_file(path);
}

// Whether two files hold a tensor with other bytes.
inline bool differs(const io::SafetensorsFile& a, const io::SafetensorsFile& b,
                    const std::string& name) {
  const auto bytes_in = [&](const io::SafetensorsFile& file) {
    const io::TensorInfo& t = file.at(name);
    std::vector<char> bytes(t.bytes());
    file.read_bytes(t, 0, bytes.data(), bytes.size());
    return bytes;
  };
  return bytes_in(a) != bytes_in(b);
}

}  // namespace glmtune::train
