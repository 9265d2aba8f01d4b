#include <gtest/gtest.h>

#include "train/optimizer.h"

namespace glmtune::train {
namespace {

TEST(OptimizerSettings, MomentsOfTwoTypesAreRefusedForAGpuByTheirKeys) {
  OptimizerSettings settings;
  settings.master_weights = MasterWeights::kBf16;
  settings.exp_avg_dtype = DType::kBF16;
  settings.exp_avg_sq_dtype = DType::kF32;
  Optimizer::check_settings(settings, Device::kCpu);
  try {
    Optimizer::check_settings(settings, Device::kCuda);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_STREQ(
        e.what(),
        "optimizer.exp_avg_sq_dtype is F32 and optimizer.exp_avg_dtype BF16; on a GPU both "
        "moments have one type: give both keys the same");
  }
  settings.master_weights = MasterWeights::kFp32;  // the moments are F32 then, whatever was named
  Optimizer::check_settings(settings, Device::kCuda);
}

}  // namespace
}  // namespace glmtune::train
