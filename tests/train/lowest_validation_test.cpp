// LOWEST_VAL: the checkpoint of this run and folder whose validation loss is the lowest.
#include "train/checkpoint_folder.h"
#include "trainer_support.h"

namespace glmtune::train {
namespace {

class LowestValidation : public Trainer {
 protected:
  static std::string with(std::string recipe, const std::string& text, const std::string& by) {
    const std::size_t at = recipe.find(text);
    check(at != std::string::npos, cat("the recipe has no ", text));
    return recipe.replace(at, text.size(), by);
  }
  // A save and a validation after every step.
  std::string recipe(const std::string& out, int steps) const {
    return with(mock_recipe(out, steps, 1,
                            "validation_dataset: {_target_: nemo_automodel.components.datasets.llm."
                            "mock_iterable_dataset.MockIterableDataset, vocab_size: 320, seq_len: "
                            "24, num_samples: 7}\n"),
                "ckpt_every_steps: ", "val_every_steps: 1, ckpt_every_steps: ");
  }
  std::string lowest(const std::string& out) const {
    const auto found = CheckpointFolder(path(out)).pointed_at("LOWEST_VAL");
    return found ? fs::path(found->path).filename().string() : "none";
  }
};

TEST_F(LowestValidation, ALossOfAnotherFolderIsNoCheckpointOfThisOne) {
  ASSERT_EQ(train(recipe("first", 3)), 0);
  ASSERT_NE(lowest("first"), "none");
  // So large a rate only makes it worse.
  const std::string second =
      with(with(recipe("second", 4), "{enabled: true,",
                cat("{enabled: true, restore_from: ", path("first/LATEST"), ",")),
           "lr: 1e-3", "lr: 0.3");
  ASSERT_EQ(train(second), 0);
  EXPECT_EQ(lowest("second"), "epoch_1_step_3");
}

TEST_F(LowestValidation, AProcessThatEndedBeforeItsLinkLeavesItToTheNextOne) {
  ASSERT_EQ(train(recipe("out", 4)), 0);
  const CheckpointFolder folder(path("out"));
  const auto best = folder.pointed_at("LOWEST_VAL");
  ASSERT_TRUE(best);
  ASSERT_EQ(best->step, 3);
  folder.point("LOWEST_VAL", folder.published().front());
  ASSERT_EQ(train(recipe("out", 4)), 0);  // nothing is left to do
  EXPECT_EQ(lowest("out"), "epoch_1_step_3");
}

}  // namespace
}  // namespace glmtune::train
