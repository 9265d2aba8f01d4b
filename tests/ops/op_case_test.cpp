#include <gtest/gtest.h>

#include <cctype>

#include "support/op_cases.h"

namespace glmtune::test {
namespace {

class EveryOp : public testing::TestWithParam<OpCase> {};

TEST_P(EveryOp, HasTheGradientsThatDifferencesGive) {
  EXPECT_EQ(check_gradients(GetParam()), "");
}

TEST_P(EveryOp, WritesItsOutputsOnlyAndTheSameBitsTwice) {
  for (const std::int64_t pad : {0, 3}) {
    EXPECT_EQ(check_outputs(GetParam(), DType::kF64, pad, Device::kCpu), "");
    for (const DType dtype : GetParam().dtypes)
      EXPECT_EQ(check_outputs(GetParam(), dtype, pad, Device::kCpu), "") << name_of(dtype);
  }
}

TEST_P(EveryOp, StaysWithinTheRoundingOfItsType) {
  for (const DType dtype : GetParam().dtypes)
    EXPECT_EQ(check_precision(GetParam(), dtype), "") << name_of(dtype);
}

class EveryOpOnCuda : public testing::TestWithParam<OpCase> {};

TEST_P(EveryOpOnCuda, AgreesWithTheCpuAndGivesTheSameBitsTwice) {
  if (!cuda_device_present()) GTEST_SKIP() << "no CUDA device (or a build without CUDA)";
  for (const std::int64_t pad : {0, 3, 8})  // 8: rows stay aligned for vector loads
    for (const DType dtype : GetParam().dtypes) {
      EXPECT_EQ(check_cuda(GetParam(), dtype, pad), "") << name_of(dtype) << ", pad " << pad;
      EXPECT_EQ(check_outputs(GetParam(), dtype, pad, Device::kCuda), "") << name_of(dtype);
    }
}

std::string test_name(const testing::TestParamInfo<OpCase>& info) {
  std::string name = info.param.name;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryOp, testing::ValuesIn(all_op_cases(Sizes::kOdd)), test_name);
INSTANTIATE_TEST_SUITE_P(Ops, EveryOpOnCuda, testing::ValuesIn(all_op_cases(Sizes::kOdd)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(WideOps, EveryOpOnCuda, testing::ValuesIn(all_op_cases(Sizes::kWide)),
                         test_name);

}  // namespace

void PrintTo(const OpCase& c, std::ostream* out) {
  *out << c.name;
}

}  // namespace glmtune::test
