// A newcomer's try: each published recipe trains a small model on one machine, changed by nothing
// but the command line.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "apps/command_line.h"
#include "base/cat.h"
#include "io/json.h"
#include "support/temp_folder.h"

namespace glmtune::apps {
namespace {

using Words = std::vector<std::string>;

int quietly(const Words& words, std::string* errors) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int status = run_command_line(words);
  ::testing::internal::GetCapturedStdout();
  *errors = ::testing::internal::GetCapturedStderr();
  return status;
}

TEST(Newcomer, EveryPublishedRecipeTrainsASmallModelByOverridesAlone) {
  const char* shared = std::getenv("GLMTUNE_SHARED");
  if (shared == nullptr) GTEST_SKIP() << "GLMTUNE_SHARED is not set";
  const std::string examples = GLMTUNE_SOURCE "/examples";
  const TempFolder temp;
  const std::string model = temp / "model";
  std::string errors;
  ASSERT_EQ(quietly({"init", examples + "/tiny/config.json", model, "--seed", "1"}, &errors), 0)
      << errors;

  const std::string endings = cat(shared, "/data/eval/hellaswag_schema.swag10.jsonl");
  const Words here{"--model.pretrained_model_name_or_path", model};
  const Words hellaswag{"--dataset.path_or_dataset", endings,
                        "--validation_dataset.path_or_dataset", endings};
  const Words chat{"--dataset.path_or_dataset_id",
                   examples + "/chat/train.jsonl",
                   "--dataset.tokenizer.pretrained_model_name_or_path",
                   model,
                   "--dataset.split",
                   "train[:20]"};
  const Words val{"--validation_dataset.path_or_dataset_id",
                  examples + "/chat/val.jsonl",
                  "--validation_dataset.tokenizer.pretrained_model_name_or_path",
                  model,
                  "--validation_dataset.split",
                  "train"};
  // The benchmark recipes do not run; their models and data do.
  const Words mock{"--recipe",
                   "TrainFinetuneRecipeForNextTokenPrediction",
                   "--model.config.pretrained_model_name_or_path",
                   model,
                   "--dataset.seq_len",
                   "64",
                   "--dataset.num_samples",
                   "16"};
  const Words full{"--peft", "null"};
  const struct {
    const char* name;
    std::vector<Words> words;
  } recipes[] = {{"glm_5_hellaswag_pp", {here, hellaswag}},
                 {"glm_5.1_hellaswag_pp", {here, hellaswag}},
                 {"glm_5.2_hellaswag_pp", {here, hellaswag}},
                 {"glm_5.1_lora", {here, hellaswag, full}},
                 {"glm_5.2_lora", {here, chat, val, full}},
                 {"glm_5.2_tulu3_32k_tilelang_cp8", {here, chat, {"--distributed.cp_size", "1"}}},
                 {"glm_5.2_tulu3_4k_tilelang_100k", {here, chat}},
                 {"glm_5.2_tulu3_4k_cudnn_100k", {here, chat}},
                 {"glm_5.3_tulu3_4k_cudnn_100step", {here, chat}},
                 {"glm5_lora", {mock, full}},
                 {"glm_5_te_deepep", {mock}}};
  for (const auto& recipe : recipes) {
    const std::string out = temp / recipe.name;
    Words words{cat(shared, "/recipes/", recipe.name, ".yaml"),
                "--distributed.pp_size",
                "1",
                "--distributed.ep_size",
                "1",
                "--step_scheduler.global_batch_size",
                "2",
                "--step_scheduler.local_batch_size",
                "1",
                "--step_scheduler.max_steps",
                "1",
                "--checkpoint.checkpoint_dir",
                out};
    for (const Words& more : recipe.words) words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(quietly(words, &errors), 0) << recipe.name << "\n" << errors;
    std::ifstream log(out + "/training.jsonl");
    std::string line;
    ASSERT_TRUE(std::getline(log, line)) << recipe.name;
    EXPECT_NEAR(io::parse_json(line, "log").find("loss")->as_double(), 6.94, 0.25) << recipe.name;
  }
}

}  // namespace
}  // namespace glmtune::apps
