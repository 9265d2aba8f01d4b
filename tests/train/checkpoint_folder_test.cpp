// The folder of a run's checkpoints (recipes.md 2.5): names, pointers, where a run goes on, what is
// kept.
#include "train/checkpoint_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/cat.h"
#include "base/error.h"
#include "io/files.h"
#include "support/temp_folder.h"

namespace glmtune::train {
namespace {

namespace fs = std::filesystem;

class CheckpointFolderTest : public ::testing::Test {
 protected:
  StepFolder save(std::int64_t epoch, std::int64_t step) const {
    return folder_.save(epoch, step, [](const std::string& path) {
      io::write_file(path + "/state", "x");
      return Checksums{};
    });
  }
  std::string resolved(const std::string& from, std::string* note = nullptr) const {
    std::string unused;
    const auto found = folder_.resolve(from, note != nullptr ? note : &unused);
    return found ? fs::path(found->path).filename().string() : "none";
  }
  std::string error(const std::string& from) const {
    try {
      return resolved(from);
    } catch (const Error& e) {
      return e.what();
    }
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  TempFolder temp_;
  CheckpointFolder folder_{temp_ / "out"};
};

TEST_F(CheckpointFolderTest, NamesEpochAndStepAndPointsToTheLatest) {
  save(0, 99);
  EXPECT_TRUE(fs::exists(temp_ / "out/epoch_0_step_99/manifest.json"));
  EXPECT_FALSE(fs::exists(temp_ / "out/epoch_0_step_99/.incomplete"));
  EXPECT_EQ(fs::read_symlink(temp_ / "out/LATEST"), "epoch_0_step_99");
  save(1, 199);
  EXPECT_EQ(fs::read_symlink(temp_ / "out/LATEST"), "epoch_1_step_199");
}

TEST_F(CheckpointFolderTest, WithoutASettingTheNewestIsResumed) {
  EXPECT_EQ(resolved(""), "none");
  save(0, 9);
  save(0, 99);
  EXPECT_EQ(resolved(""), "epoch_0_step_99");
  fs::remove(temp_ / "out/LATEST");
  EXPECT_EQ(resolved(""), "epoch_0_step_99");
}

TEST_F(CheckpointFolderTest, IsNamedByPathByNameOrByPointer) {
  const StepFolder first = save(0, 9);
  save(0, 19);
  folder_.point("LOWEST_VAL", first);
  EXPECT_EQ(resolved("LATEST"), "epoch_0_step_19");
  EXPECT_EQ(resolved("LOWEST_VAL"), "epoch_0_step_9");
  EXPECT_EQ(resolved("epoch_0_step_9"), "epoch_0_step_9");
  EXPECT_EQ(resolved(temp_ / "out/epoch_0_step_19"), "epoch_0_step_19");
}

// recipes.md 2.5: missing is an error; LATEST with nothing a warning and a fresh start.
TEST_F(CheckpointFolderTest, LatestWithNothingIsAWarningAndAFreshStart) {
  std::string note;
  EXPECT_EQ(resolved("LATEST", &note), "none");
  EXPECT_TRUE(has(note, "restore_from: LATEST: no complete checkpoint")) << note;
}

TEST_F(CheckpointFolderTest, LowestValWithoutATargetIsAnErrorThatNamesWhatIsThere) {
  EXPECT_TRUE(has(error("LOWEST_VAL"), "has no such link; there is no complete checkpoint"));
  save(0, 9);
  save(1, 19);
  EXPECT_TRUE(
      has(error("LOWEST_VAL"), "has no such link; complete are: epoch_0_step_9, epoch_1_step_19"));
  fs::create_directory_symlink("epoch_3_step_7", temp_ / "out/LOWEST_VAL");
  EXPECT_TRUE(has(error("LOWEST_VAL"), "LOWEST_VAL names epoch_3_step_7, which is not there"));
}

TEST_F(CheckpointFolderTest, AMissingOrIncompleteOneIsAnErrorWhereItIsNamed) {
  save(0, 9);
  EXPECT_TRUE(has(error("epoch_0_step_7"), "nor epoch_0_step_7 is a folder; name a path"));
  EXPECT_TRUE(has(error("/nowhere"), "/nowhere is no folder; name a path"));
  fs::create_directories(temp_ / "out/epoch_0_step_19");
  io::write_file(temp_ / "out/epoch_0_step_19/.incomplete", "");
  EXPECT_TRUE(has(error("epoch_0_step_19"), "is incomplete (its save was interrupted)"));
  EXPECT_EQ(resolved(""), "epoch_0_step_9");
}

TEST_F(CheckpointFolderTest, APublishedOneIsNeverOverwrittenAnIncompleteOneIsReplaced) {
  save(0, 9);
  EXPECT_THROW(save(0, 9), Error);
  fs::create_directories(temp_ / "out/epoch_0_step_19");
  io::write_file(temp_ / "out/epoch_0_step_19/.incomplete", "");
  save(0, 19);
  EXPECT_EQ(resolved("LATEST"), "epoch_0_step_19");
}

TEST_F(CheckpointFolderTest, AFailedSaveLeavesThePointerAlone) {
  save(0, 9);
  EXPECT_THROW(folder_.save(0, 19, [](const std::string&) -> Checksums { fail("no"); }), Error);
  EXPECT_FALSE(fs::exists(temp_ / "out/epoch_0_step_19"));
  EXPECT_EQ(resolved("LATEST"), "epoch_0_step_9");
}

TEST_F(CheckpointFolderTest, RetentionKeepsTheHighestStepsWhatIsPointedToAndOtherNames) {
  const StepFolder first = save(0, 9);
  save(0, 19);
  save(0, 29);
  save(1, 39);
  folder_.point("LOWEST_VAL", first);
  fs::create_directories(temp_ / "out/notes");
  EXPECT_EQ(folder_.retain(2).size(), 1u);
  for (const char* kept : {"epoch_0_step_9", "epoch_0_step_29", "epoch_1_step_39", "notes"})
    EXPECT_TRUE(fs::exists(temp_ / ("out/" + std::string(kept)))) << kept;
  EXPECT_FALSE(fs::exists(temp_ / "out/epoch_0_step_19"));
}

}  // namespace
}  // namespace glmtune::train
