// Settings of a recipe that a run obeys.
#include "base/error.h"
#include "io/safetensors.h"
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
