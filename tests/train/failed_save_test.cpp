// A save that cannot be whole: what was trained, and what was saved before, is never lost for it.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/exit_code.h"
#include "io/files.h"
#include "train/folder_support.h"

namespace glmtune::train {
namespace {

class FailedSave : public FolderTrainer {};

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

// The source's weights are read again for tensors that are stored in another type.
TEST_F(FailedSave, TheTrainingStateIsKeptWhereTheHuggingFaceFolderFails) {
  fs::copy(kGolden, path("base"));
  const std::string weights = path("base/model.safetensors");
  const std::string recipe =
      with(mock_recipe("out", 40, 1000, "", "bfloat16"), kGolden + "\n", path("base") + "\n");
  std::thread spoil([&] {
    for (int i = 0; i < 30'000 && !fs::exists(path("out/training.jsonl")); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    fs::resize_file(weights, 5000);
  });
  const std::string message = error_of(recipe);
  spoil.join();
  EXPECT_NE(message.find("the Hugging Face folder could not be written: "), std::string::npos)
      << message;
  EXPECT_NE(message.find("holds the training state"), std::string::npos) << message;
  const std::vector<std::string> saved = step_folders("out");
  ASSERT_EQ(saved.size(), 1U);
  const std::string step = path("out/" + saved[0]);
  EXPECT_EQ(CheckpointFolder(path("out")).pointed_at("LATEST")->path, step);
  EXPECT_FALSE(fs::exists(step + "/model"));
  // As the message says, once the cause is gone.
  fs::copy_file(kGolden + "/model.safetensors", weights, fs::copy_options::overwrite_existing);
  ASSERT_EQ(
      train(with(with(recipe, "max_steps: 40", "max_steps: 0"),
                 "{enabled: true, checkpoint_dir: " + path("out"),
                 "{enabled: true, restore_from: " + step + ", checkpoint_dir: " + path("again"))),
      0);
  EXPECT_TRUE(fs::exists(path("again/LATEST/model/consolidated/model.safetensors")));
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
