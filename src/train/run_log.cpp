#include "train/run_log.h"

#include <fmt/format.h>

#include "cuda/device.h"
#include "train/device_peaks.h"
#include "train/log.h"

namespace glmtune::train {

std::optional<double> peak_tflops(const Recipe& recipe, Device device) {
  if (recipe.peak_tflops) return recipe.peak_tflops;
  if (!recipe.mfu_device.empty()) return peak_of_device(recipe.mfu_device);
  if (device != Device::kCuda) return std::nullopt;
  return peak_of_device(cuda_device_info(0).name);
}

double RunLog::memory_gib() const {
  return static_cast<double>(memory_bytes_()) / (1024.0 * 1024.0 * 1024.0);
}

void RunLog::write(const StepResult& r, Progress& progress) {
  TrainMetrics m;
  m.step = r.step;
  m.epoch = r.epoch;
  m.loss = r.loss;
  if (r.loss) m.grad_norm = r.grad_norm;
  m.lr = r.lr;
  m.mem = memory_gib();
  m.tps = static_cast<double>(r.tokens_to_last_label) / r.seconds_in_all;
  m.tps_per_gpu = m.tps;
  m.tps_per_gpu_true = static_cast<double>(r.tokens_to_last_label) / r.seconds;
  if (peak_tflops_) {
    m.mfu = r.automodel_flops / r.seconds_in_all / (*peak_tflops_ * 1e12);
    m.mfu_true = r.flops / r.seconds / (*peak_tflops_ * 1e12);
  }
  m.num_tokens_per_step = r.tokens_to_last_label;
  m.num_label_tokens = r.label_tokens;
  metrics_.write(m);
  log_info(console_line(m));
  progress.update(r.step + 1, fmt::format("loss {:.4f}  lr {:.2e}  {:.0f} tok/s",
                                          r.loss.value_or(0), r.lr, m.tps));
}

void RunLog::write(const ValidationResult& v) {
  ValidationMetrics m;
  m.name = v.name;
  m.step = v.step;
  m.epoch = v.epoch;
  if (v.label_tokens > 0) m.loss = v.loss;
  m.lr = v.lr;
  m.num_label_tokens = v.label_tokens;
  m.mem = memory_gib();
  metrics_.write(m);
  log_info(console_line(m));
}

}  // namespace glmtune::train
