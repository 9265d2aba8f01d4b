// The model against references made with transformers 5.17.0 (tests/fixtures/golden, and the rest
// below GLMTUNE_SHARED/golden): logits, loss, hidden states and every gradient.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "cuda/device.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "support/temp_folder.h"
#include "train/verify.h"

namespace glmtune::train {
namespace {

struct Case {
  const char* name;
  bool in_repository = false;
};

constexpr Case kCases[] = {
    {"indexshare", true}, {"packed", true}, {"all_full"}, {"list"},       {"short"},
    {"groups"},           {"nonorm"},       {"eps1e-5"},  {"kernel_dims"}};

std::string folder_of(const Case& c) {
  if (c.in_repository) return std::string(GLMTUNE_FIXTURES) + "/golden/" + c.name;
  const char* shared = std::getenv("GLMTUNE_SHARED");
  return shared == nullptr ? "" : std::string(shared) + "/golden/" + c.name;
}

class Golden : public testing::TestWithParam<std::tuple<Case, DType>> {};

TEST_P(Golden, AgreesWithTransformers) {
  const auto& [c, dtype] = GetParam();
  const std::string folder = folder_of(c);
  if (folder.empty()) GTEST_SKIP() << "GLMTUNE_SHARED is not set";
  const io::Value facts = io::read_json_file(folder + "/golden.json");
  VerifyOptions options{.model = folder, .reference = folder + "/golden.safetensors"};
  options.dtype = dtype;
  options.latent_norm_eps = facts.find("latent_norm_eps")->as_double();
  // In double only the reference's own float32 rounding is left.
  options.tolerance = dtype == DType::kF64 ? 2e-6 : 5e-6;
  const VerifyReport report = verify(options);
  const bool ok =
      report.ok() && (dtype != DType::kF64 ||
                      (report.loss->rel <= 5e-7 &&
                       std::all_of(report.grads.begin(), report.grads.end(),
                                   [](const TensorError& e) { return e.rel_l2 <= 5e-6; })));
  EXPECT_TRUE(ok) << report.text();
  EXPECT_FALSE(report.grads.empty());
  RecordProperty("report", report.json());
}

INSTANTIATE_TEST_SUITE_P(Cases, Golden,
                         testing::Combine(testing::ValuesIn(kCases),
                                          testing::Values(DType::kF32, DType::kF64)),
                         [](const auto& p) {
                           std::string name = std::get<0>(p.param).name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name + "_" + std::string(name_of(std::get<1>(p.param)));
                         });

class GoldenCuda : public testing::TestWithParam<Case> {};

TEST_P(GoldenCuda, AgreesWithTransformersInFloat32) {
  std::string why;
  if (cuda_device_count(&why) == 0) GTEST_SKIP() << why;
  const std::string folder = folder_of(GetParam());
  if (folder.empty()) GTEST_SKIP() << "GLMTUNE_SHARED is not set";
  const io::Value facts = io::read_json_file(folder + "/golden.json");
  VerifyOptions options{.model = folder, .reference = folder + "/golden.safetensors"};
  options.device = "cuda";
  options.latent_norm_eps = facts.find("latent_norm_eps")->as_double();
  const VerifyReport report = verify(options);
  EXPECT_TRUE(report.ok()) << report.text();
  RecordProperty("report", report.json());
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenCuda, testing::ValuesIn(kCases), [](const auto& p) {
  std::string name = p.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Verify, ReferenceWithoutResultsIsAnErrorNotAgreement) {
  const std::string folder = folder_of({"indexshare", true});
  const std::vector<std::int32_t> ids{1, 2, 3};
  for (const bool stray : {false, true}) {
    const TempFolder temp;
    std::vector<io::TensorInfo> tensors{{.name = "input_ids", .dtype = DType::kI32, .shape = {3}}};
    if (stray) tensors.push_back({.name = "hidden.99", .dtype = DType::kF32, .shape = {1}});
    io::SafetensorsWriter writer(temp / "reference.safetensors", tensors);
    writer.append(ids.data(), ids.size() * sizeof ids[0]);
    const float zero = 0;
    if (stray) writer.append(&zero, sizeof zero);
    writer.finish();
    try {
      verify({.model = folder, .reference = temp / "reference.safetensors"});
      FAIL();
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(stray ? "hidden.99" : "nothing to compare"),
                std::string::npos)
          << e.what();
    }
  }
}

TEST(Verify, WrongLatentEpsIsSeen) {
  const std::string folder = folder_of({"indexshare", true});
  VerifyOptions options{.model = folder, .reference = folder + "/golden.safetensors"};
  options.latent_norm_eps = 1e-5;  // the reference was made with 1e-6
  EXPECT_FALSE(verify(options).ok());
}

TEST(Verify, ANanInTheReferenceIsOverEveryTolerance) {
  EXPECT_TRUE(std::isnan(compare("t", {0, 0}, {std::nan(""), 1}).rel_l2));
}

}  // namespace
}  // namespace glmtune::train
