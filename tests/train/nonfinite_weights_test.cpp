// Weights that are not finite already where a run starts.
#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "models/glm_moe_dsa.h"
#include "support/tiny_model.h"
#include "train/checkpoint_folder.h"
#include "train/nonfinite.h"
#include "train/trainer_support.h"

namespace glmtune::train {
namespace {

constexpr const char* kFrozen = "model.layers.0.self_attn.indexer.wk.weight";

class NonFiniteStart : public Trainer {
 protected:
  // The golden model with NaNs at the start of a tensor: training on it ends with this error.
  std::string error_with_nan_in(const std::string& tensor, int steps = 4,
                                const char* saves = "true") {
    fs::copy(kGolden, path("base"));
    const std::string file = path("base/model.safetensors");
    const std::uint64_t offset = io::SafetensorsFile::open(file).at(tensor).offset;
    {
      std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
      out.seekp(static_cast<std::streamoff>(offset));
      out.write("\xff\xff\xff\x7f", 4);  // one F32, or two BF16
    }
    std::string recipe = mock_recipe("out", steps, 1);
    recipe.replace(recipe.find(kGolden + "\n"), kGolden.size(), path("base"));
    recipe.replace(recipe.find("enabled: true"), 13, cat("enabled: ", saves));
    try {
      train(recipe);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }
  void expect_error_with_nan_in(const std::string& tensor, int steps = 4) {
    const std::string message = error_with_nan_in(tensor, steps);
    EXPECT_NE(message.find(cat("the weights are not finite before the first step: ", tensor, " of ",
                               path("base"))),
              std::string::npos)
        << message;
    EXPECT_TRUE(CheckpointFolder(path("out")).published().empty());
  }
};

TEST_F(NonFiniteStart, AFrozenTensorThatNoStepReadsIsNamedBeforeTraining) {
  expect_error_with_nan_in(kFrozen);
}

TEST_F(NonFiniteStart, ATrainedTensorIsNamedBeforeTraining) {
  expect_error_with_nan_in("model.embed_tokens.weight");
}

TEST_F(NonFiniteStart, ARunWithoutStepsSavesNoneEither) {
  expect_error_with_nan_in("model.norm.weight", 0);
}

// It makes no step, so that it answers for none of the log's.
TEST_F(NonFiniteStart, TheLogOfAnEarlierRunStaysAsItIs) {
  std::string unsaved = mock_recipe("out", 4, 1);
  unsaved.replace(unsaved.find("enabled: true"), 13, "enabled: false");
  ASSERT_EQ(train(unsaved), 0);
  const std::string before = bytes(path("out/training.jsonl"));
  EXPECT_NE(error_with_nan_in(kFrozen, 4, "false").find("not finite before the first step"),
            std::string::npos);
  EXPECT_EQ(bytes(path("out/training.jsonl")), before);
  EXPECT_FALSE(fs::exists(path("out/training.jsonl.superseded")));
}

TEST(NonFiniteParameters, ThoseThatTrainingChangesAreToldFromFrozenOnes) {
  Engine engine(models::make_model(test::tiny_config(), DType::kF64, 1e-5), {.gradients = true});
  test::randomize(engine.model(), 3);
  Optimizer optimizer(engine.model(), {}, 1, Device::kCpu);
  engine.reserve({.saved = 0, .scratch = optimizer.scratch_bytes(Device::kCpu)});
  const auto first = [&](Parameters which) {
    return first_nonfinite_parameter(engine, optimizer, which);
  };
  // The first element: NaN, or 1 again.
  const auto spoil = [&](const std::string& name, bool yes) {
    engine.model().visit_parameters([&](nn::Parameter& p) {
      if (p.name != name) return;
      const double value = yes ? std::numeric_limits<double>::quiet_NaN() : 1;
      if (p.value.dtype == DType::kF64)
        *p.value.as<double>() = value;
      else
        *p.value.as<float>() = static_cast<float>(value);
    });
  };
  EXPECT_EQ(first(Parameters::kAll), "");
  spoil(kFrozen, true);
  EXPECT_EQ(first(Parameters::kAll), kFrozen);
  EXPECT_EQ(first(Parameters::kFrozen), kFrozen);
  EXPECT_EQ(first(Parameters::kTrained), "");
  spoil(kFrozen, false);
  // The router's bias has no gradient, and moves all the same.
  for (const std::string name :
       {"model.norm.weight", "model.layers.1.mlp.gate.e_score_correction_bias"}) {
    spoil(name, true);
    EXPECT_EQ(first(Parameters::kTrained), name);
    EXPECT_EQ(first(Parameters::kFrozen), "");
    spoil(name, false);
  }
}

}  // namespace
}  // namespace glmtune::train
