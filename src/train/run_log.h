#pragma once
// RunLog: what a run says of its steps: a line of training.jsonl or validation*.jsonl, a line on
// the console, and the progress line.
#include <functional>
#include <optional>
#include <string>

#include "tensor/tensor.h"
#include "train/metrics_log.h"
#include "train/progress.h"
#include "train/recipe.h"
#include "train/training_loop.h"

namespace glmtune::train {

// Peak of one device in TFLOP/s for `mfu`; none where nothing is known of it.
std::optional<double> peak_tflops(const Recipe& recipe, Device device);

class RunLog {
 public:
  // memory_bytes: what the run holds on its device.
  RunLog(MetricsLog& metrics, std::optional<double> peak_tflops,
         std::function<std::size_t()> memory_bytes)
      : metrics_(metrics), peak_tflops_(peak_tflops), memory_bytes_(std::move(memory_bytes)) {}

  void write(const StepResult& step, Progress& progress);
  void write(const ValidationResult& validation);

 private:
  double memory_gib() const;

  MetricsLog& metrics_;
  std::optional<double> peak_tflops_;
  std::function<std::size_t()> memory_bytes_;
};

}  // namespace glmtune::train
