#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "models/hf_checkpoint.h"
#include "models/inspect.h"
#include "models/random_init.h"
#include "support/checkpoint_builder.h"
#include "support/memory_parameters.h"
#include "support/temp_folder.h"

namespace glmtune::models {
namespace {

namespace fs = std::filesystem;

const std::string kConfig = std::string(GLMTUNE_FIXTURES) + "/golden/packed/config.json";

std::vector<float> values(const std::string& name, std::uint64_t seed, std::int64_t first,
                          std::int64_t n) {
  TensorSpec spec;
  spec.name = name;
  spec.shape = {n};
  std::vector<float> v(static_cast<std::size_t>(n));
  initial_values(spec, 0.5, seed, first, Tensor::dense(v.data(), {n}, DType::kF32, Device::kCpu));
  return v;
}

TEST(RandomInit, ValuesDependOnSeedNameAndPositionOnly) {
  const std::vector<float> all = values("a", 1, 0, 1001), part = values("a", 1, 333, 10);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 333));
  EXPECT_NE(all, values("a", 2, 0, 1001));
  EXPECT_NE(all, values("b", 1, 0, 1001));
}

TEST(RandomInit, AStopLeavesNothing) {
  const TempFolder folder;
  const std::atomic<int> stop{15};
  InitOptions options;
  options.stop = &stop;
  EXPECT_THROW(write_random_checkpoint(kConfig, folder / "out", options), InitInterrupted);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(RandomInit, WritesACheckpointThatOpensAndLoads) {
  const TempFolder folder;
  fs::create_directory(folder / "in");
  CheckpointBuilder b;
  b.config = io::read_json_file(kConfig);
  b.config.set("num_nextn_predict_layers", 1);
  io::write_file(folder / "in/config.json", io::to_json(b.config));
  io::write_file(folder / "in/tokenizer.json", "{}");
  const InitReport report = write_random_checkpoint(folder / "in/config.json", folder / "out",
                                                    {.seed = 3, .shard_bytes = 300'000});
  EXPECT_GT(report.weight_files.size(), 3U);
  EXPECT_EQ(report.copied_files, std::vector<std::string>{"tokenizer.json"});
  const HfCheckpoint c = HfCheckpoint::open(folder / "out");
  EXPECT_TRUE(c.has_mtp());
  MemoryParameters p(c.config(), DType::kF32);
  c.load(p.all());
  EXPECT_EQ(p.at("model.norm.weight").value.as<float>()[5], 1.0F);
  EXPECT_EQ(p.at("model.layers.1.mlp.gate.e_score_correction_bias").value.as<float>()[5], 0.0F);
  EXPECT_LT(std::abs(p.at("lm_head.weight").value.as<float>()[5]), 0.2F);

  const InitReport half = write_random_checkpoint(folder / "in/config.json", folder / "bf16",
                                                  {.seed = 3, .dtype = DType::kBF16});
  EXPECT_EQ(half.weight_files.size(), 1U);
  EXPECT_EQ(half.parameters, report.parameters);
  const HfCheckpoint d = HfCheckpoint::open(folder / "bf16");
  EXPECT_EQ(d.config().dtype, DType::kBF16);
  EXPECT_EQ(d.own_dtype(), DType::kBF16);
  const CheckpointBuilder one = CheckpointBuilder::from(folder / "out");
  for (const auto& [name, t] : CheckpointBuilder::from(folder / "bf16").tensors) {
    EXPECT_EQ(t, converted(one.tensors.at(name), t.dtype)) << name;
  }
  EXPECT_THROW((void)write_random_checkpoint(folder / "in/config.json", folder / "out"), Error);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 3);
}

TEST(Inspect, DescribesACheckpointAndItsProblems) {
  const TempFolder folder;
  CheckpointBuilder b = CheckpointBuilder::from(std::string(GLMTUNE_FIXTURES) + "/golden/packed");
  b.write(folder / "a", 2);
  Inspection in = inspect(folder / "a");
  EXPECT_TRUE(in.problems.empty());
  EXPECT_EQ(in.files.size(), 2U);
  EXPECT_EQ(in.total.tensors, static_cast<std::int64_t>(b.tensors.size()));
  EXPECT_NE(to_text(in).find("complete"), std::string::npos);
  std::int64_t sum = 0;
  for (const auto& c : in.components) sum += c.elements;
  EXPECT_EQ(sum, in.total.elements);
  EXPECT_TRUE(to_value(in).find("ok")->as_bool());
  b.tensors.erase("model.norm.weight");
  b.tensors["extra"] = random_tensor({3}, DType::kF32, 1);
  b.write(folder / "b");
  in = inspect(folder / "b");
  EXPECT_EQ(in.problems.size(), 2U);
  EXPECT_NE(to_text(in).find("2 problems:"), std::string::npos);
  EXPECT_NE(to_text(in).find("extra: is not expected"), std::string::npos);
}

TEST(Inspect, ATiedHeadThatDiffersIsAProblem) {
  const TempFolder folder;
  CheckpointBuilder b = CheckpointBuilder::from(std::string(GLMTUNE_FIXTURES) + "/golden/packed");
  b.config.set("tie_word_embeddings", true);
  b.write(folder / "differs");
  const Inspection in = inspect(folder / "differs");
  ASSERT_EQ(in.problems.size(), 1U);
  EXPECT_NE(in.problems[0].find("lm_head.weight: differs"), std::string::npos) << in.problems[0];
  EXPECT_FALSE(to_value(in).find("ok")->as_bool());
  b.tensors["lm_head.weight"] = b.tensors["model.embed_tokens.weight"];
  b.write(folder / "same");
  EXPECT_TRUE(inspect(folder / "same").problems.empty());
}

TEST(Inspect, ListsASingleFile) {
  const Inspection in =
      inspect(std::string(GLMTUNE_FIXTURES) + "/golden/packed/golden.safetensors");
  EXPECT_NE(to_text(in).find("cu_seqlens  [5] I"), std::string::npos) << to_text(in);
  EXPECT_THROW((void)inspect("/no/such/path"), Error);
}

TEST(HfCheckpoint, EveryGoldenSavesToTheSameBytes) {
  const char* shared = std::getenv("GLMTUNE_SHARED");
  if (shared == nullptr) GTEST_SKIP() << "GLMTUNE_SHARED is not set";
  for (const char* name :
       {"all_full", "list", "short", "groups", "nonorm", "eps1e-5", "kernel_dims"}) {
    const std::string from = std::string(shared) + "/golden/" + name;
    const TempFolder folder;
    const HfCheckpoint c = HfCheckpoint::open(from);
    MemoryParameters p(c.config(), DType::kF32);
    c.load(p.all());
    c.save(folder / "out", p.all());
    EXPECT_EQ(io::read_file(from + "/model.safetensors"),
              io::read_file(folder / "out/model.safetensors"))
        << name;
  }
}

}  // namespace
}  // namespace glmtune::models
