// What `check` says of settings that a run would refuse once it has read the model and the data.
#include "apps/cli_support.h"

namespace glmtune::apps {
namespace {

class CheckSettings : public CommandLine {
 protected:
  Outcome check_with(const std::vector<std::string>& settings) {
    std::vector<std::string> words{
        "check", recipe(),
        cat("--model.pretrained_model_name_or_path=", GLMTUNE_FIXTURES, "/golden/indexshare"),
        "--step_scheduler.max_steps=3"};
    words.insert(words.end(), settings.begin(), settings.end());
    return glmtune(words);
  }
};

TEST_F(CheckSettings, ACheckpointThatIsNotThereIsAnError) {
  const Outcome outcome = check_with({"--checkpoint.restore_from=epoch_0_step_77"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(contains(outcome.err, "checkpoint.restore_from: neither ")) << outcome.err;
  EXPECT_EQ(check_with({"--checkpoint.restore_from=LATEST"}).status, 0);
}

TEST_F(CheckSettings, TheTypeOfArithmeticIsHeldAgainstTheCheckpoints) {
  constexpr const char* kConflict = "not runnable yet: distributed.mp_policy.param_dtype";
  const std::string key = "--distributed.mp_policy.param_dtype=";
  const Outcome same = check_with({key + "float32"});
  EXPECT_FALSE(contains(same.out, kConflict)) << same.out;
  const Outcome other = check_with({key + "bfloat16"});
  EXPECT_TRUE(contains(other.out, kConflict)) << other.out << other.err;
  EXPECT_TRUE(contains(other.out, "what runs: --model.torch_dtype bfloat16")) << other.out;
}

}  // namespace
}  // namespace glmtune::apps
