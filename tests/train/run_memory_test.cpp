#include "train/run_memory.h"

#include <gtest/gtest.h>

namespace glmtune::train {
namespace {

constexpr std::uint64_t kGB = 1'000'000'000;

TEST(DeviceMemory, IsWhatIsNoLongerFree) {
  EXPECT_EQ(device_memory_line({.planned = 2 * kGB, .free = 9 * kGB}, 6 * kGB),
            "GPU memory: 3.00 GB in use, 2.00 GB planned, 9.00 GB were free");
}

TEST(DeviceMemory, OfAnotherProgramsThatEndedIsNotTakenForOurs) {
  const std::string line = device_memory_line({.planned = kGB, .free = 2 * kGB}, 3 * kGB);
  EXPECT_TRUE(line.starts_with("GPU memory: 0 bytes in use")) << line;
}

}  // namespace
}  // namespace glmtune::train
