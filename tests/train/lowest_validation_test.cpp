// LOWEST_VAL: the checkpoint of this run and folder whose validation loss is the lowest.
#include <fmt/format.h>

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
  double loss(const std::string& folder) const {
    return io::read_json_file(path(folder) + "/losses.json").find("val_loss")->as_double();
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

TEST_F(LowestValidation, ALossOfAnotherRunInTheFolderIsNotThisOnes) {
  ASSERT_EQ(train(recipe("out", 4)), 0);
  ASSERT_EQ(lowest("out"), "epoch_1_step_3");
  // So large a rate only makes it worse.
  const std::string other = with(with(with(recipe("out", 7), "{enabled: true,",
                                           "{enabled: true, max_recent_checkpoints: 1, "
                                           "restore_from: LATEST,"),
                                      "lr: 1e-3", "lr: 0.3"),
                                 "seed: 5", "seed: 6");
  ASSERT_EQ(train(other), 0);
  std::string best;
  double least = 0;
  std::ifstream losses(path("out/validation.jsonl"));
  for (std::string line; std::getline(losses, line);) {
    const io::Value value = io::parse_json(line, "losses");
    const std::int64_t step = value.find("step")->as_int();
    const double loss = value.find("val_loss")->as_double();
    if (step < 4 || (!best.empty() && loss >= least)) continue;
    least = loss;
    best = cat("epoch_", step / 2, "_step_", step);
  }
  EXPECT_EQ(lowest("out"), best);
  EXPECT_TRUE(fs::exists(path("out/" + best)));
  EXPECT_TRUE(fs::exists(path("out/epoch_1_step_3")));
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

TEST_F(LowestValidation, ARunThatGoesBackDoesNotMoveItToAWorseCheckpoint) {
  const std::string every = "ckpt_every_steps: 1,", kept = "{enabled: true,";
  ASSERT_EQ(train(with(recipe("out", 4), every, "ckpt_every_steps: 2,")), 0);
  ASSERT_EQ(lowest("out"), "epoch_1_step_3");
  // Beside the better one: step 2, after step 1.
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  const int status = train(with(with(recipe("out", 3), every, "ckpt_every_steps: 3,"), kept,
                                cat(kept, " restore_from: epoch_0_step_1,")));
  const std::string said =
      testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
  ASSERT_EQ(status, 0) << said;
  ASSERT_LT(loss("out/epoch_1_step_2"), loss("out/epoch_0_step_1"));
  ASSERT_GT(loss("out/epoch_1_step_2"), loss("out/epoch_1_step_3"));
  EXPECT_EQ(lowest("out"), "epoch_1_step_3");
  EXPECT_NE(said.find(fmt::format("lowest validation loss of a checkpoint: {:.4f}, {}",
                                  loss("out/epoch_1_step_3"), path("out/epoch_1_step_3"))),
            std::string::npos)
      << said;
}

// A copy of a run's folder may have lost the links.
TEST_F(LowestValidation, WithoutTheLinkTheBestOneIsFoundAlsoBehindWhereTheRunGoesOn) {
  const std::string every = "ckpt_every_steps: 1,", kept = "{enabled: true,";
  ASSERT_EQ(train(with(recipe("out", 4), every, "ckpt_every_steps: 2,")), 0);
  ASSERT_EQ(lowest("out"), "epoch_1_step_3");
  fs::remove(path("out/LOWEST_VAL"));
  ASSERT_EQ(train(with(with(recipe("out", 3), every, "ckpt_every_steps: 3,"), kept,
                       cat(kept, " restore_from: epoch_0_step_1,"))),
            0);
  ASSERT_GT(loss("out/epoch_1_step_2"), loss("out/epoch_1_step_3"));
  EXPECT_EQ(lowest("out"), "epoch_1_step_3");
}

TEST_F(LowestValidation, ARunThatIsRefusedMovesNoLink) {
  ASSERT_EQ(train(recipe("out", 3)), 0);
  fs::remove(path("out/LOWEST_VAL"));
  EXPECT_THROW(train(with(recipe("out", 3), "{enabled: true,",
                          "{enabled: true, restore_from: epoch_0_step_0,")),
               Error);
  EXPECT_EQ(lowest("out"), "none");
}

TEST_F(LowestValidation, WhereTheBestOneWasRemovedTheBestThatIsLeftIsNamed) {
  ASSERT_EQ(train(recipe("out", 4)), 0);
  ASSERT_EQ(lowest("out"), "epoch_1_step_3");
  fs::remove_all(path("out/epoch_1_step_3"));
  ASSERT_EQ(train(recipe("out", 3)), 0);  // nothing is left to do
  EXPECT_EQ(lowest("out"), "epoch_1_step_2");
}

}  // namespace
}  // namespace glmtune::train
