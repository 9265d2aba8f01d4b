// The model against references made with transformers 5.17.0 (tests/fixtures/golden, and the rest
// below GLMTUNE_SHARED/golden): logits, loss, hidden states and every gradient.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "base/cat.h"
#include "cuda/device.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "models/glm_config.h"
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
  VerifyOptions options{.model = folder, .references = {folder + "/golden.safetensors"}};
  options.dtype = dtype;
  options.latent_norm_eps = facts.find("latent_norm_eps")->as_double();
  // In double only the reference's own float32 rounding is left.
  options.tolerance = dtype == DType::kF64 ? 2e-6 : 5e-6;
  const VerifyReport report = verify(options).front();
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
  VerifyOptions options{.model = folder, .references = {folder + "/golden.safetensors"}};
  options.device = "cuda";
  options.latent_norm_eps = facts.find("latent_norm_eps")->as_double();
  const VerifyReport report = verify(options).front();
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
      verify({.model = folder, .references = {temp / "reference.safetensors"}});
      FAIL();
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(stray ? "hidden.99" : "nothing to compare"),
                std::string::npos)
          << e.what();
    }
  }
}

// Two layers' worth of made-up choices: the model's own are found by asking twice.
TEST(Verify, OverlapOfChoicesIsReportedPerLayer) {
  const std::string folder = folder_of({"indexshare", true});
  const models::GlmConfig config = models::read_glm_config(folder + "/config.json");
  const io::SafetensorsFile golden = io::SafetensorsFile::open(folder + "/golden.safetensors");
  const std::int64_t T = golden.at("input_ids").count();
  const std::int64_t topk = config.index_topk, E = config.n_routed_experts;
  ASSERT_GT(T, topk);
  std::int64_t sparse = 0;
  while (!config.is_sparse(sparse)) ++sparse;
  std::vector<std::int64_t> ids(static_cast<std::size_t>(T));
  golden.read_bytes(golden.at("input_ids"), 0, ids.data(), ids.size() * sizeof ids[0]);
  // Every key and every expert: what the model chooses is a share of it that is known.
  std::vector<std::int32_t> keys, experts;
  for (std::int64_t t = 0; t < T; ++t) {
    for (std::int32_t s = 0; s < T; ++s) keys.push_back(s <= t ? s : -1);
    for (std::int32_t e = 0; e < E; ++e) experts.push_back(e);
  }
  const TempFolder temp;
  const std::string path = temp / "choices.safetensors", name = cat("experts.", sparse);
  io::SafetensorsWriter writer(path,
                               {{.name = "input_ids", .dtype = DType::kI64, .shape = {1, T}},
                                {.name = "selection.0", .dtype = DType::kI32, .shape = {1, T, T}},
                                {.name = name, .dtype = DType::kI32, .shape = {T, E}}});
  writer.append(ids.data(), ids.size() * sizeof ids[0]);
  writer.append(keys.data(), keys.size() * sizeof keys[0]);
  writer.append(experts.data(), experts.size() * sizeof experts[0]);
  writer.finish();
  double share = 0;
  for (std::int64_t t = topk; t < T; ++t)
    share += static_cast<double>(topk) / static_cast<double>(t + 1);
  const VerifyReport report = verify({.model = folder, .references = {path}}).front();
  ASSERT_EQ(report.selections.size(), 1U);
  EXPECT_EQ(report.selections[0].rows, T - topk);
  EXPECT_NEAR(report.selections[0].mean, share / static_cast<double>(T - topk), 1e-12);
  EXPECT_EQ(report.selections[0].same_rows, 0);
  ASSERT_EQ(report.experts.size(), 1U);
  EXPECT_EQ(report.experts[0].rows, T);
  EXPECT_NEAR(report.experts[0].mean,
              static_cast<double>(config.num_experts_per_tok) / static_cast<double>(E), 1e-12);
  EXPECT_TRUE(report.ok());
  const io::Value json = io::parse_json(report.json(), "report");
  EXPECT_EQ(json.find("experts")->find("layers")->find(name)->find("rows")->as_int(), T);
  EXPECT_NE(report.text().find("selection.0"), std::string::npos);
}

TEST(Verify, NumbersThatCannotBeAreErrorsThatNameThem) {
  const std::string folder = folder_of({"indexshare", true});
  const auto message = [&](std::vector<std::int32_t> ids, std::int32_t choice, const char* name) {
    const TempFolder temp;
    const std::string path = temp / "r.safetensors";
    io::SafetensorsWriter writer(path, {{.name = "input_ids", .dtype = DType::kI32, .shape = {3}},
                                        {.name = name, .dtype = DType::kI32, .shape = {3, 2}}});
    writer.append(ids.data(), ids.size() * sizeof ids[0]);
    const std::vector<std::int32_t> choices(6, choice);
    writer.append(choices.data(), choices.size() * sizeof choices[0]);
    writer.finish();
    try {
      verify({.model = folder, .references = {path}});
      return std::string();
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  std::int64_t sparse = 0;
  while (!models::read_glm_config(folder + "/config.json").is_sparse(sparse)) ++sparse;
  const std::string experts = cat("experts.", sparse);
  EXPECT_NE(message({1, 2, -1}, 0, experts.c_str()).find("token 2 has id -1; expected 0 or more"),
            std::string::npos)
      << message({1, 2, -1}, 0, experts.c_str());
  EXPECT_NE(
      message({1, 2, 3}, 99, experts.c_str()).find(" has 99 for token 0; expected numbers below"),
      std::string::npos)
      << message({1, 2, 3}, 99, experts.c_str());
}

TEST(Verify, SeveralReferencesGiveOneReportEach) {
  const std::string folder = folder_of({"packed", true}), file = folder + "/golden.safetensors";
  VerifyOptions options{.model = folder, .references = {file, file}};
  options.latent_norm_eps = 1e-6;
  const std::vector<VerifyReport> reports = verify(options);
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_TRUE(reports[0].ok()) << reports[0].text();
  EXPECT_EQ(reports[0].json(), reports[1].json());
  EXPECT_GT(reports[0].logits->kl, -1e-9);
}

TEST(Verify, WrongLatentEpsIsSeen) {
  const std::string folder = folder_of({"indexshare", true});
  VerifyOptions options{.model = folder, .references = {folder + "/golden.safetensors"}};
  options.latent_norm_eps = 1e-5;  // the reference was made with 1e-6
  EXPECT_FALSE(verify(options).front().ok());
}

TEST(Verify, ANanInTheReferenceIsOverEveryTolerance) {
  EXPECT_TRUE(std::isnan(compare("t", {0, 0}, {std::nan(""), 1}).rel_l2));
}

}  // namespace
}  // namespace glmtune::train
