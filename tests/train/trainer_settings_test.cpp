// Settings of a recipe that a run obeys.
#include <cmath>

#include "base/error.h"
#include "io/safetensors.h"
#include "models/random_init.h"
#include "support/checkpoint_builder.h"
#include "train/recipe_support.h"
#include "train/trainer_support.h"

namespace glmtune::train {
namespace {

class TrainerSettings : public Trainer {
 protected:
  std::string refusal(const std::string& yaml) {
    try {
      train(yaml);
    } catch (const Error& e) {
      return e.what();
    }
    return "ran";
  }
  // What a run says on standard output.
  std::string information(const std::string& yaml) {
    testing::internal::CaptureStdout();
    const std::string failed = refusal(yaml);
    std::string text = testing::internal::GetCapturedStdout();
    EXPECT_EQ(failed, "ran");
    return text;
  }
  // What a run says on standard error. An exception while it is captured would leave the capture
  // open, and the next one would abort the program.
  std::string warnings(const std::string& yaml) {
    testing::internal::CaptureStderr();
    const std::string failed = refusal(yaml);
    std::string text = testing::internal::GetCapturedStderr();
    EXPECT_EQ(failed, "ran");
    return text;
  }
};

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  check(at != std::string::npos, "the recipe of the test has changed");
  return text.replace(at, what.size(), by);
}

// recipes.md 1.4, start_step: numbers, schedule and end are those of a run that had come so far.
TEST_F(TrainerSettings, TheFirstStepMayHaveANumber) {
  const std::string recipe =
      replaced(golden_recipe("out"), "max_steps: 10", "max_steps: 10, start_step: 7");
  ASSERT_EQ(train(recipe), 0);
  const auto lines = log("out");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].find("step")->as_int(), 7);
  EXPECT_TRUE(fs::exists(path("out/epoch_0_step_9/manifest.json")));
}

// recipes.md 1.3, fake_balanced_gate: the routers are left as they are, the rest trains.
TEST_F(TrainerSettings, TheFakeGateLeavesTheRouterAlone) {
  for (const char* noise : {"0", "0.5"}) {
    const std::string out = std::string("noise") + noise;
    ASSERT_EQ(train(replaced(mock_recipe(out, 3, 100), "gate_bias_update_factor: 1e-3",
                             cat("gate_bias_update_factor: 1e-3\n  backend: {fake_balanced_gate: "
                                 "true, fake_gate_noise: ",
                                 noise, "}"))),
              0);
    const auto before = io::SafetensorsFile::open(kGolden + "/model.safetensors");
    const auto after =
        io::SafetensorsFile::open(path(out + "/LATEST/model/consolidated/model.safetensors"));
    int changed = 0;
    for (const io::TensorInfo& t : before.tensors()) {
      const bool changes = differs(before, after, t.name);
      changed += changes ? 1 : 0;
      EXPECT_FALSE(changes && t.name.find(".mlp.gate.") != std::string::npos) << t.name;
    }
    EXPECT_GT(changed, 10);
  }
}

// recipes.md 7.5: FP8 weights are dequantised unless the recipe forbids it.
TEST_F(TrainerSettings, FP8WeightsAreDequantisedUnlessTheRecipeForbidsIt) {
  CheckpointBuilder b = CheckpointBuilder::from(kGolden);
  quantize_fp8(b);
  b.write(path("fp8"));
  const auto recipe = [&](const char* word) {
    std::string text = replaced(mock_recipe(word, 3, 100), kGolden, path("fp8"));
    text = replaced(text, "torch_dtype: float32", "torch_dtype: null");
    return replaced(text, "checkpoint: {enabled: true",
                    cat("checkpoint: {dequantize_base_checkpoint: ", word, ", enabled: true"));
  };
  EXPECT_TRUE(contains(refusal(recipe("false")),
                       "holds FP8 weights and checkpoint.dequantize_base_checkpoint is false"));
  for (const char* word : {"true", "null"}) {
    EXPECT_EQ(refusal(recipe(word)), "ran") << word;
    const CheckpointBuilder saved =
        CheckpointBuilder::from(path(word) + "/LATEST/model/consolidated");
    EXPECT_EQ(saved.config.find("quantization_config"), nullptr);
  }
  // Weights that are not quantised have nothing to be dequantised.
  testing::internal::CaptureStdout();
  const std::string plain =
      refusal(replaced(mock_recipe("plain", 3, 100), "checkpoint: {enabled: true",
                       "checkpoint: {dequantize_base_checkpoint: true, enabled: true"));
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_EQ(plain, "ran");
  EXPECT_TRUE(contains(text, "dequantize_base_checkpoint: the weights are not quantised")) << text;
}

// A config that announces what its weights do not have.
TEST_F(TrainerSettings, AnMtpLayerThatIsAnnouncedButAbsentIsWarnedAbout) {
  CheckpointBuilder b = CheckpointBuilder::from(kGolden);
  b.config.set("num_nextn_predict_layers", 1);
  b.write(path("announced"));
  EXPECT_TRUE(contains(warnings(replaced(mock_recipe("out", 3, 100), kGolden, path("announced"))),
                       "announces num_nextn_predict_layers 1, but no MTP tensor is there"));
  EXPECT_FALSE(contains(warnings(mock_recipe("plain", 3, 100)), "MTP"));
}

TEST_F(TrainerSettings, ARunSaysInWhichTypeItTrainsWeightsInF16) {
  CheckpointBuilder b = CheckpointBuilder::from(kGolden);
  for (auto& [name, tensor] : b.tensors)
    if (!name.ends_with("e_score_correction_bias")) tensor = converted(tensor, DType::kF16);
  b.write(path("half"));
  const std::string text = information(replaced(mock_recipe("out", 3, 100), kGolden, path("half")));
  EXPECT_TRUE(contains(text, "half: weights in F16 are trained in F32 and saved in F16 again"))
      << text;
}

TEST_F(TrainerSettings, AnMtpLayerIsNamedAmongWhatIsNotTrained) {
  CheckpointBuilder b = CheckpointBuilder::from(kGolden);
  b.config.set("num_nextn_predict_layers", 1);
  b.write(path("announced"));
  models::write_random_checkpoint(path("announced/config.json"), path("mtp"), {.seed = 3});
  const std::string text = information(replaced(mock_recipe("out", 3, 100), kGolden, path("mtp")));
  EXPECT_TRUE(contains(text, ", multi-token-prediction layers, carried along as they are (1)\n"))
      << text;
}

// model.md: positions beyond the trained ones.
TEST_F(TrainerSettings, SamplesBeyondTheModelsPositionsAreWarnedAbout) {
  CheckpointBuilder b = CheckpointBuilder::from(kGolden);
  b.config.set("max_position_embeddings", 20);
  b.write(path("short"));
  const std::string text = warnings(replaced(mock_recipe("out", 3, 100), kGolden, path("short")));
  EXPECT_TRUE(contains(text,
                       "dataset: the longest sample has 24 tokens, beyond the model's "
                       "max_position_embeddings 20"))
      << text;
}

// recipes.md 7.6 and user_reports 32: the state's precision and what gets no gradient are said.
TEST_F(TrainerSettings, TheOptimizersStateAndWhatIsNotTrainedAreLogged) {
  testing::internal::CaptureStdout();
  const std::string failed = refusal(mock_recipe("out", 3, 100));
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_EQ(failed, "ran");
  EXPECT_TRUE(contains(text, "optimizer: AdamW, lr 0.001 cosine")) << text;
  EXPECT_TRUE(contains(text, "fp32 weights and moments")) << text;
  EXPECT_TRUE(contains(text, "not trained: ")) << text;
  EXPECT_TRUE(contains(text, "self_attn.indexer.wk.weight (")) << text;
  testing::internal::CaptureStdout();
  EXPECT_EQ(refusal(mock_recipe("bf16", 3, 100, "", "bfloat16")), "ran");
  const std::string bf16 = testing::internal::GetCapturedStdout();
  EXPECT_TRUE(contains(bf16, "exact fp32 master")) << bf16;
}

// user_reports 32: weight decay leaves what has no gradient alone.
TEST_F(TrainerSettings, WeightDecayLeavesTheIndexerAlone) {
  ASSERT_EQ(train(replaced(golden_recipe("out"), "weight_decay: 0.01", "weight_decay: 0.1")), 0);
  const CheckpointBuilder before = CheckpointBuilder::from(kGolden);
  const CheckpointBuilder after = CheckpointBuilder::from(path("out/LATEST/model/consolidated"));
  int indexers = 0;
  for (const auto& [name, t] : before.tensors) {
    if (name.find(".indexer.") == std::string::npos) continue;
    EXPECT_EQ(after.tensors.at(name), t) << name;
    ++indexers;
  }
  EXPECT_GT(indexers, 4);
}

// recipes.md 1.7: without the correction the first step of Adam is smaller.
TEST_F(TrainerSettings, BiasCorrectionChangesTheSteps) {
  const auto loss_after = [&](const char* word) {
    const std::string target = "transformer_engine.pytorch.optimizers.FusedAdam, bias_correction: ";
    EXPECT_EQ(train(replaced(golden_recipe(word), "torch.optim.AdamW", target + word)), 0);
    return log(word).back().find("loss")->as_double();
  };
  EXPECT_GT(std::abs(loss_after("true") / loss_after("false") - 1), 1e-4);
}

// user_reports.md 43.
TEST_F(TrainerSettings, AFallbackIsAnErrorUnderStrictBackend) {
  const auto with = [&](const std::string& backend) {
    return replaced(golden_recipe("out"), "latent_norm_eps: 1e-6",
                    "latent_norm_eps: 1e-6\n  backend: " + backend);
  };
  EXPECT_TRUE(contains(refusal(with("{attn: flashmla, strict_backend: true}")),
                       "model.backend.attn flashmla: its kernels need a GPU"));
  EXPECT_EQ(refusal(with("{attn: sdpa, strict_backend: true}")), "ran");
}

}  // namespace
}  // namespace glmtune::train
