// Validation in a run (recipes.md 3.6, 2.4, 2.5): several sets, their logs, and LOWEST_VAL.
#include <algorithm>
#include <map>

#include "train/checkpoint_folder.h"
#include "train/trainer_support.h"

namespace glmtune::train {
namespace {

class TrainerValidation : public Trainer {
 protected:
  static std::string set(const std::string& key, int samples) {
    return cat(key, ": {_target_: nemo_automodel.components.datasets.llm.mock_iterable_dataset.",
               "MockIterableDataset, vocab_size: 320, seq_len: 24, num_samples: ", samples, "}\n");
  }
  // Losses of a validation log by step.
  std::map<std::int64_t, double> losses(const std::string& file) const {
    std::map<std::int64_t, double> out;
    std::ifstream in(path(file));
    for (std::string line; std::getline(in, line);) {
      const io::Value row = io::parse_json(line, file);
      out[row.find("step")->as_int()] = row.find("val_loss")->as_double();
    }
    return out;
  }
};

TEST_F(TrainerValidation, LowestValFollowsTheSetThatTheRecipeNames) {
  std::string recipe = mock_recipe(
      "out", 6, 2, cat(set("validation_dataset", 3), set("validation_dataset_other", 5)));
  recipe.replace(recipe.find("checkpoint: {"), 13, "checkpoint: {best_metric_key: other, ");
  ASSERT_EQ(train(recipe), 0);
  const auto plain = losses("out/validation.jsonl"), other = losses("out/validation_other.jsonl");
  ASSERT_EQ(plain.size(), 3U);  // with every checkpoint: steps 1, 3, 5
  ASSERT_EQ(other.size(), 3U);
  const auto best = std::min_element(
      other.begin(), other.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto lowest = CheckpointFolder(path("out")).pointed_at("LOWEST_VAL");
  ASSERT_TRUE(lowest);
  EXPECT_EQ(lowest->step, best->first);
  const io::Value saved = io::read_json_file(lowest->path + "/losses.json");
  EXPECT_EQ(saved.find("val_loss")->as_double(), plain.at(best->first));
  EXPECT_EQ(saved.find("val_loss_other")->as_double(), best->second);
}

TEST_F(TrainerValidation, ItsCadenceIsItsOwn) {
  std::string recipe = mock_recipe("out", 5, 100, set("validation_dataset", 3));
  recipe.replace(recipe.find("ckpt_every_steps"), 16, "val_every_steps: 2, ckpt_every_steps");
  ASSERT_EQ(train(recipe), 0);
  const auto steps = losses("out/validation.jsonl");
  std::vector<std::int64_t> numbers;
  for (const auto& [step, loss] : steps) numbers.push_back(step);
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{1, 3, 4}));
}

TEST_F(TrainerValidation, ASignalInTheLastStepDropsNoneAndAStopBeforeTheOneThatIsDue) {
  const auto recipe = [&](int steps) {
    return mock_recipe("out", steps, 4, set("validation_dataset", 3));
  };
  const std::atomic<int> stop{15};
  ASSERT_EQ(train(recipe(4)), 0);
  ASSERT_EQ(train(recipe(5), &stop), 0);
  const auto measured = losses("out/validation.jsonl");
  EXPECT_EQ(measured.rbegin()->first, 4);
  // Saved before the validation, the checkpoint has its loss all the same.
  const io::Value saved = io::read_json_file(path("out/LATEST/losses.json"));
  ASSERT_TRUE(saved.find("val_loss"));
  EXPECT_EQ(saved.find("val_loss")->as_double(), measured.at(4));
  EXPECT_EQ(saved.find("train_loss")->as_double(), log("out").back().find("loss")->as_double());
  EXPECT_EQ(damage_of(path("out/LATEST"), "losses.json"), "");
  EXPECT_EQ(check_manifest(path("out/LATEST")).others, "");
  EXPECT_EQ(CheckpointFolder(path("out")).pointed_at("LOWEST_VAL")->step,
            measured.at(4) < measured.at(3) ? 4 : 3);
  ASSERT_EQ(train(recipe(8), &stop), 75);
  EXPECT_EQ(losses("out/validation.jsonl").rbegin()->first, 4);
}

}  // namespace
}  // namespace glmtune::train
