#include "train/metrics_log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "base/cat.h"
#include "base/error.h"

namespace glmtune::train {
namespace {

namespace fs = std::filesystem;

class MetricsFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() / cat("glmtune_metrics_", test->name(), "_", ::getpid());
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string read(const char* name) const {
    std::ifstream in(folder_ / name);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  std::vector<std::int64_t> steps() const {
    std::istringstream in(read("training.jsonl"));
    std::vector<std::int64_t> out;
    for (std::string line; std::getline(in, line);)
      out.push_back(io::parse_json(line, "x").find("step")->as_int());
    return out;
  }
  static TrainMetrics at(std::int64_t step) {
    TrainMetrics metrics;
    metrics.step = step;
    metrics.loss = 1.5;
    return metrics;
  }

  fs::path folder_;
};

TEST_F(MetricsFiles, EveryLineIsOnDiskWhenWritten) {
  MetricsLog log(folder_.string(), {}, 0);
  for (int step = 0; step < 3; ++step) {
    log.write(at(step));
    EXPECT_EQ(steps().size(), static_cast<std::size_t>(step) + 1);
  }
}

TEST_F(MetricsFiles, HaveAutoModelsKeysAndTheTrueOnes) {
  MetricsLog log(folder_.string(), {}, 0);
  TrainMetrics metrics = at(7);
  metrics.more = {{"t_data", 0.5}};
  log.write(metrics);
  const io::Value record = io::parse_json(read("training.jsonl"), "x");
  std::vector<std::string> keys;
  for (const auto& [key, value] : record.as_object()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"step", "epoch", "timestamp", "loss", "grad_norm", "lr",
                                            "mem", "tps", "tps_per_gpu", "tps_per_gpu_true", "mfu",
                                            "mfu_true", "num_tokens_per_step", "num_label_tokens",
                                            "t_data"}));
  EXPECT_TRUE(record.find("grad_norm")->is_null());
  EXPECT_TRUE(std::regex_match(record.find("timestamp")->as_string(),
                               std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)")));
}

TEST_F(MetricsFiles, ValidationSetsHaveFilesOfTheirOwn) {
  MetricsLog log(folder_.string(), {}, 0);
  log.write(ValidationMetrics{.name = "default", .step = 1, .loss = 2.0, .timestamp = ""});
  log.write(ValidationMetrics{.name = "math", .step = 1, .loss = 3.0, .timestamp = ""});
  EXPECT_EQ(io::parse_json(read("validation.jsonl"), "x").find("val_loss")->as_double(), 2.0);
  EXPECT_EQ(io::parse_json(read("validation_math.jsonl"), "x").find("val_loss")->as_double(), 3.0);
}

// user_reports 78: step numbers go on without duplicates after a resume.
TEST_F(MetricsFiles, ARunThatGoesOnAppendsToTheStepsBefore) {
  { MetricsLog(folder_.string(), {}, 0).write(at(0)); }
  {
    MetricsLog log(folder_.string(), {}, 1);
    log.write(at(1));
    log.write(at(2));
  }
  { MetricsLog(folder_.string(), {}, 2).write(at(2)); }
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{0, 1, 2}));
}

TEST_F(MetricsFiles, ATornLineDoesNotSwallowTheNext) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "training.jsonl") << "{\"step\": 0, \"lo";
  { MetricsLog(folder_.string(), {}, 1).write(at(1)); }
  EXPECT_EQ(steps(), std::vector<std::int64_t>{1});
}

TEST_F(MetricsFiles, AFolderThatCannotBeMadeIsNamed) {
  std::ofstream(folder_.string()) << "a file";
  try {
    MetricsLog log((folder_ / "x").string(), {}, 0);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(folder_.string()), std::string::npos);
  }
}

TEST_F(MetricsFiles, ALogThatCannotBeWrittenIsNamed) {
  fs::create_directories(folder_ / "training.jsonl");
  try {
    MetricsLog log(folder_.string(), {}, 0);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("training.jsonl"), std::string::npos) << e.what();
  }
  fs::remove(folder_ / "training.jsonl");
  MetricsLog log(folder_.string(), {}, 0);
  fs::create_directories(folder_ / "training.jsonl");
  try {
    log.write(at(0));
    FAIL();
  } catch (const MachineError& e) {
    EXPECT_NE(std::string(e.what()).find("training.jsonl"), std::string::npos) << e.what();
  }
}

TEST(ConsoleLine, IsAutoModels) {
  TrainMetrics metrics;
  metrics.step = 3;
  metrics.epoch = 1;
  metrics.loss = 1.23456;
  metrics.grad_norm = 0.5;
  metrics.lr = 1e-5;
  metrics.mem = 1.5;
  metrics.tps = 1234.5;
  metrics.tps_per_gpu = 617.25;
  metrics.num_label_tokens = 42;
  EXPECT_EQ(console_line(metrics),
            "step 3 | epoch 1 | loss 1.2346 | grad_norm 0.5000 | lr 1.00e-05 | mem 1.50 GiB | tps "
            "1234.50(617.25/gpu) | num_label_tokens 42");
  metrics.mem = 3.0 / 1024;
  EXPECT_NE(console_line(metrics).find("mem 0.00 GiB | tps 1234.50(617.25/gpu) |"),
            std::string::npos);
  metrics.loss = -NAN;
  EXPECT_NE(console_line(metrics).find("loss nan |"), std::string::npos);
  ValidationMetrics validation{.name = "math", .step = 9, .loss = 2.0, .lr = 1e-4, .timestamp = ""};
  validation.num_label_tokens = 7;
  EXPECT_EQ(console_line(validation),
            "[val] name \"math\" | step 9 | epoch 0 | loss 2.0000 | lr 1.00e-04 | num_label_tokens "
            "7");
}

TEST(ConsoleLine, NothingToLearnFromIsNull) {
  EXPECT_NE(console_line(TrainMetrics{}).find("loss null | grad_norm null"), std::string::npos);
  TrainMetrics metrics;
  metrics.loss = NAN;
  EXPECT_TRUE(to_value(metrics).find("loss")->is_null());
}

}  // namespace
}  // namespace glmtune::train
