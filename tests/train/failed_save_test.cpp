// A save that cannot be whole: what was trained, and what was saved before, is never lost for it.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/exit_code.h"
#include "io/files.h"
#include "train/folder_support.h"

namespace glmtune::train {
namespace {

class FailedSave : public FolderTrainer {
 protected:
  // Trains from a copy of the golden model, whose weights are gone when the run saves: what the run
  // ends with. The source's weights are read again for tensors that are stored in another type.
  std::string error_without_weights(const std::string& recipe) {
    std::thread spoil([&] {
      for (int i = 0; i < 30'000 && !fs::exists(path("out/training.jsonl")); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      fs::resize_file(weights(), 5000);
    });
    std::string message = error_of(recipe);
    spoil.join();
    return message;
  }
  std::string weights() const { return path("base/model.safetensors"); }
  std::string on_copy(int steps, int every) const {
    fs::copy(kGolden, path("base"));
    return with(mock_recipe("out", steps, every, "", "bfloat16"), kGolden + "\n",
                path("base") + "\n");
  }
};

TEST_F(FailedSave, WeightsThatAreNotFiniteNeverReplaceGoodOnes) {
  const std::string good = with(mock_recipe("out", 3, 1), "{enabled: true,",
                                "{enabled: true, max_recent_checkpoints: 1,");
  ASSERT_EQ(train(good), 0);
  const std::vector<std::string> before = step_folders("out");
  ASSERT_EQ(before.size(), 1U);
  ::testing::internal::CaptureStderr();
  const int status =
      train(with(with(good, "max_steps: 3", "max_steps: 4"), "lr: 1e-3}", "lr: 1e300}"));
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(status, exit_status(ExitCode::kNonFinite));
  EXPECT_NE(said.find("the weights are not finite after step 3, first model."), std::string::npos)
      << said;
  EXPECT_NE(said.find(before[0] + " stays the newest"), std::string::npos) << said;
  EXPECT_EQ(step_folders("out"), before);
  EXPECT_EQ(train(with(good, "max_steps: 3", "max_steps: 4")), 0);
}

TEST_F(FailedSave, TheTrainingStateIsKeptWhereTheHuggingFaceFolderFails) {
  const std::string recipe = on_copy(40, 1000);
  const std::string message = error_without_weights(recipe);
  EXPECT_NE(message.find("the Hugging Face folder could not be written: "), std::string::npos)
      << message;
  EXPECT_NE(message.find("holds the training state"), std::string::npos) << message;
  const std::vector<std::string> saved = step_folders("out");
  ASSERT_EQ(saved.size(), 1U);
  const std::string step = path("out/" + saved[0]);
  EXPECT_EQ(CheckpointFolder(path("out")).pointed_at("LATEST")->path, step);
  EXPECT_FALSE(fs::exists(step + "/model"));
  // As the message says, once the cause is gone.
  fs::copy_file(kGolden + "/model.safetensors", weights(), fs::copy_options::overwrite_existing);
  ASSERT_EQ(
      train(with(with(recipe, "max_steps: 40", "max_steps: 0"),
                 "{enabled: true, checkpoint_dir: " + path("out"),
                 "{enabled: true, restore_from: " + step + ", checkpoint_dir: " + path("again"))),
      0);
  EXPECT_TRUE(fs::exists(path("again/LATEST/model/consolidated/model.safetensors")));
}

// Room that older checkpoints take may be what the folder lacks.
TEST_F(FailedSave, OlderCheckpointsAreRemovedAlsoWhereTheHuggingFaceFolderFails) {
  const std::string recipe = on_copy(3, 1);
  ASSERT_EQ(train(recipe), 0);
  ASSERT_EQ(step_folders("out").size(), 3U);
  fs::remove(path("out/training.jsonl"));
  const std::string message =
      error_without_weights(with(with(with(recipe, "max_steps: 3", "max_steps: 40"),
                                      "ckpt_every_steps: 1,", "ckpt_every_steps: 1000,"),
                                 "{enabled: true,", "{enabled: true, max_recent_checkpoints: 1,"));
  EXPECT_NE(message.find("holds the training state"), std::string::npos) << message;
  EXPECT_EQ(step_folders("out"), std::vector<std::string>{"epoch_9_step_19"});
}

TEST_F(FailedSave, ACheckpointWithoutItsManifestIsCalledDamagedAndIsNotToBeRemoved) {
  const std::string recipe = mock_recipe("out", 4, 2);
  ASSERT_EQ(train(recipe), 0);
  const std::string newest = path("out/" + step_folders("out").back());
  fs::remove(newest + "/manifest.json");
  const std::string message = error_of(recipe);
  EXPECT_NE(message.find("it is a damaged checkpoint, its manifest.json is missing"),
            std::string::npos)
      << message;
  EXPECT_EQ(message.find("remove"), std::string::npos) << message;
}

}  // namespace
}  // namespace glmtune::train
