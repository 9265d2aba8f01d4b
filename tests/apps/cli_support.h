#pragma once
// The program as a function: words in, status and output back; and a recipe to try it with.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "apps/command_line.h"
#include "base/cat.h"

namespace glmtune::apps {

namespace fs = std::filesystem;

struct Outcome {
  int status = 0;
  std::string out, err;
};

inline Outcome glmtune(const std::vector<std::string>& words) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.status = run_command_line(words);
  outcome.out = ::testing::internal::GetCapturedStdout();
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline const char* const kChat =
    R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}
)";

class CommandLine : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() / cat("glmtune_cli_", test->name(), "_", ::getpid());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const char* name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  std::string recipe() const {
    return write(
        "r.yaml",
        cat("recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
            "model: {pretrained_model_name_or_path: zai-org/GLM-5.2}\n"
            "dataset:\n"
            "  _target_: nemo_automodel.components.datasets.llm.chat_dataset.ChatDataset\n"
            "  path_or_dataset_id: ",
            write("chat.jsonl", kChat), "\noptimizer: {_target_: torch.optim.AdamW, lr: 1e-5}\n"));
  }

  fs::path folder_;
};

}  // namespace glmtune::apps
