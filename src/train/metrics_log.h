#pragma once
// Metrics of a run: training.jsonl and validation*.jsonl in the checkpoint folder, one JSON object
// a line, each handed to the system before the next step (it outlives the process, not a power
// cut); and the console's step lines. Keys are AutoModel's with AutoModel's meaning; *_true are
// honest figures beside them.
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>

#include "io/json.h"

namespace glmtune::train {

struct TrainMetrics {
  std::int64_t step = 0;  // of the update just made; the first is 0
  std::int64_t epoch = 0;
  std::optional<double> loss;       // mean over the label tokens of the global batch; none without
  std::optional<double> grad_norm;  // global L2 before clipping
  double lr = 0;                    // of the next step
  double mem = 0;                   // GiB of the run's own arenas and parameters
  double tps = 0;               // tokens/s, validation and checkpoints since the last step included
  double tps_per_gpu = 0;       // tps / (cp · dp), as AutoModel counts
  double tps_per_gpu_true = 0;  // of the step alone, / ranks
  std::optional<double> mfu;    // AutoModel's formula; none for a device without a known peak
  std::optional<double> mfu_true;        // from the FLOPs really needed
  std::int64_t num_tokens_per_step = 0;  // without each pack's tokens after its last label
  std::int64_t num_label_tokens = 0;
  std::string timestamp;  // empty: now
  // More columns, such as the seconds of each part of the step.
  io::Value::Object more = {};
};

struct ValidationMetrics {
  std::string name = "default";
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::optional<double> loss;  // none without label tokens
  double lr = 0;
  std::int64_t num_label_tokens = 0;
  double mem = 0;
  std::string timestamp;
};

// By a printf format of one double; a NaN is nan whatever its sign.
std::string printed(const char* format, double value);

// One line each, without a newline at the end.
io::Value to_value(const TrainMetrics& metrics);
io::Value to_value(const ValidationMetrics& metrics);
// "step 3 | epoch 0 | loss 1.2345 | grad_norm 0.5000 | lr 1.00e-05 | mem 1.50 GiB |
// tps 10.00(5.00/gpu) | num_label_tokens 42"
std::string console_line(const TrainMetrics& metrics);
// "[val] name "default" | step 3 | epoch 0 | loss 1.2345 | lr 1.00e-05 | num_label_tokens 42"
std::string console_line(const ValidationMetrics& metrics);

// The files that a run with these validation sets ("default", "math") writes: "training.jsonl",
// "validation.jsonl", "validation_math.jsonl".
std::vector<std::string> log_files(const std::vector<std::string>& validation_sets);

class MetricsLog {
 public:
  // Appends to the files in `folder`, which is made where it is missing; one rank writes. Lines
  // that are not of steps before first_step, where the run begins, are moved out of the way first
  // (log_rewind.h).
  MetricsLog(std::string folder, const std::vector<std::string>& validation_sets,
             std::int64_t first_step);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  void write(const TrainMetrics& metrics);
  void write(const ValidationMetrics& metrics);

 private:
  void append(const std::string& file, const std::string& line);

  std::string folder_;
  std::map<std::string, std::FILE*> files_;
};

}  // namespace glmtune::train
