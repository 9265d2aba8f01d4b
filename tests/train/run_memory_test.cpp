#include "train/run_memory.h"

#include <gtest/gtest.h>

namespace glmtune::train {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

TEST(DeviceMemory, IsWhatIsNoLongerFree) {
  EXPECT_EQ(device_memory_line({.planned = 2 * kGiB, .free = 9 * kGiB}, 6 * kGiB),
            "GPU memory: 3.00 GiB in use, 2.00 GiB planned, 9.00 GiB were free");
}

TEST(DeviceMemory, OfAnotherProgramsThatEndedIsNotTakenForOurs) {
  const std::string line = device_memory_line({.planned = kGiB, .free = 2 * kGiB}, 3 * kGiB);
  EXPECT_TRUE(line.starts_with("GPU memory: 0 bytes in use")) << line;
}

}  // namespace
}  // namespace glmtune::train
