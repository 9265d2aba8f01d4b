#include "train/device_peaks.h"

#include <gtest/gtest.h>

#include "train/recipe_support.h"
#include "train/run_log.h"

namespace glmtune::train {
namespace {

// recipes.md 3.7.
TEST(DevicePeaks, AreThoseOfAutoModelsTable) {
  for (const char* name : {"H100", "H200", "H800", "NVIDIA H100 80GB HBM3", "nvidia_h200"})
    EXPECT_EQ(peak_of_device(name), 989) << name;
  EXPECT_EQ(peak_of_device("NVIDIA B200"), 2250);
  EXPECT_EQ(peak_of_device("NVIDIA GB200"), 2500);
  EXPECT_EQ(peak_of_device("NVIDIA A100-SXM4-80GB"), 312);
  EXPECT_EQ(peak_of_device("NVIDIA L4"), std::nullopt);
}

TEST(DevicePeaks, OfTheRecipeGoBeforeThatOfTheMachine) {
  const auto peak = [](const std::vector<std::string>& settings) {
    return peak_tflops(small(settings).recipe, Device::kCpu);
  };
  EXPECT_EQ(peak({}), std::nullopt);
  EXPECT_EQ(peak({"--mfu.device=B200"}), 2250);
  EXPECT_EQ(peak({"--mfu.device=h100"}), 989);
  EXPECT_EQ(peak({"--mfu.device=B200", "--mfu.peak_tflops=100"}), 100);
}

TEST(DevicePeaks, AnUnknownDeviceIsAnErrorThatListsTheKnownOnes) {
  const std::string message = small_error({"--mfu.device=V100"});
  EXPECT_TRUE(contains(message,
                       "argument --mfu.device: mfu.device is 'V100'; known here: H100, H200, H800, "
                       "GB200, B200, A100"))
      << message;
  EXPECT_TRUE(contains(message, "mfu.peak_tflops"));
}

}  // namespace
}  // namespace glmtune::train
