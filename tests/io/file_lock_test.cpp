#include "io/file_lock.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/temp_folder.h"

namespace glmtune::io {
namespace {

TEST(FileLock, IsBusyWhileItIsHeldAndTellsOfItsHolder) {
  const TempFolder folder;
  const std::string path = folder / "lock";
  {
    FileLock held(path);
    ASSERT_EQ(held.state(), FileLock::State::kHeld);
    held.set_note("process 7");
    EXPECT_TRUE(FileLock::is_busy(path));
    const FileLock other(path);
    EXPECT_EQ(other.state(), FileLock::State::kBusy);
    EXPECT_EQ(other.note(), "process 7");
  }
  EXPECT_FALSE(FileLock::is_busy(path));
  EXPECT_EQ(FileLock(path).state(), FileLock::State::kHeld);
}

TEST(FileLock, AskingMakesNoFile) {
  const TempFolder folder;
  EXPECT_FALSE(FileLock::is_busy(folder / "lock"));
  EXPECT_FALSE(std::filesystem::exists(folder / "lock"));
}

}  // namespace
}  // namespace glmtune::io
