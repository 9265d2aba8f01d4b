#include "train/metrics_log.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/cat.h"
#include "base/error.h"
#include "io/files.h"
#include "io/this_process.h"
#include "train/log_rewind.h"

namespace glmtune::train {
namespace {

// JSON has no infinity.
io::Value finite(std::optional<double> x) {
  return x && std::isfinite(*x) ? io::Value(*x) : io::Value(nullptr);
}

std::string validation_file(const std::string& name) {
  return name == "default" ? "validation.jsonl" : "validation_" + name + ".jsonl";
}

}  // namespace

std::string printed(const char* format, double value) {
  if (std::isnan(value)) return "nan";  // a library may print its sign
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, value);
  return buffer;
}

static std::string printed(const char* format, std::optional<double> value) {
  return value ? printed(format, *value) : "null";
}

io::Value to_value(const TrainMetrics& m) {
  io::Value::Object object{
      {"step", m.step},
      {"epoch", m.epoch},
      {"timestamp", m.timestamp.empty() ? io::timestamp_now() : m.timestamp},
      {"loss", finite(m.loss)},
      {"grad_norm", finite(m.grad_norm)},
      {"lr", m.lr},
      {"mem", m.mem},
      {"tps", finite(m.tps)},
      {"tps_per_gpu", finite(m.tps_per_gpu)},
      {"tps_per_gpu_true", finite(m.tps_per_gpu_true)},
      {"mfu", finite(m.mfu)},
      {"mfu_true", finite(m.mfu_true)},
      {"num_tokens_per_step", m.num_tokens_per_step},
      {"num_label_tokens", m.num_label_tokens},
  };
  object.insert(object.end(), m.more.begin(), m.more.end());
  return object;
}

io::Value to_value(const ValidationMetrics& m) {
  return io::Value::Object{
      {"step", m.step},
      {"epoch", m.epoch},
      {"timestamp", m.timestamp.empty() ? io::timestamp_now() : m.timestamp},
      {"val_loss", finite(m.loss)},
      {"lr", m.lr},
      {"num_label_tokens", m.num_label_tokens},
      {"mem", m.mem},
  };
}

std::string console_line(const TrainMetrics& m) {
  return cat("step ", m.step, " | epoch ", m.epoch, " | loss ", printed("%.4f", m.loss),
             " | grad_norm ", printed("%.4f", m.grad_norm), " | lr ", printed("%.2e", m.lr),
             " | mem ", printed("%.2f GiB", m.mem), " | tps ", printed("%.2f", m.tps), "(",
             printed("%.2f", m.tps_per_gpu), "/gpu)", " | num_label_tokens ", m.num_label_tokens);
}

std::string console_line(const ValidationMetrics& m) {
  return cat("[val] name \"", m.name, "\" | step ", m.step, " | epoch ", m.epoch, " | loss ",
             printed("%.4f", m.loss), " | lr ", printed("%.2e", m.lr), " | num_label_tokens ",
             m.num_label_tokens);
}

std::vector<std::string> log_files(const std::vector<std::string>& validation_sets) {
  std::vector<std::string> files = {"training.jsonl"};
  for (const std::string& name : validation_sets) files.push_back(validation_file(name));
  return files;
}

MetricsLog::MetricsLog(std::string folder, const std::vector<std::string>& validation_sets,
                       std::int64_t first_step)
    : folder_(std::move(folder)) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error && !io::is_users_error(error.value()))
    io::fail_errno(folder_, "creating", error.value());
  if (error)
    fail(cat("checkpoint.checkpoint_dir: ", folder_, ": the folder cannot be made: ",
             error.message(), "; choose a folder that can be written"));
  if (::access(folder_.c_str(), W_OK | X_OK) != 0)
    fail(cat("checkpoint.checkpoint_dir: ", folder_, ": cannot be written: ", std::strerror(errno),
             "; choose a folder that can be written"));
  rewind_logs(folder_, log_files(validation_sets), first_step);
}

MetricsLog::~MetricsLog() {
  for (const auto& [name, file] : files_)
    if (file != nullptr) std::fclose(file);  // null: it could not be opened
}

void MetricsLog::append(const std::string& name, const std::string& line) {
  const std::string path = (std::filesystem::path(folder_) / name).string();
  std::FILE*& file = files_[name];
  if (file == nullptr) {
    file = std::fopen(path.c_str(), "ab");
    if (file == nullptr) fail_machine(cat(path, ": cannot be opened: ", std::strerror(errno)));
  }
  const std::string text = line + "\n";
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (!written || std::fflush(file) != 0)
    fail_machine(cat(path, ": writing failed: ", std::strerror(errno)));
}

void MetricsLog::write(const TrainMetrics& metrics) {
  append("training.jsonl", io::to_json(to_value(metrics)));
}

void MetricsLog::write(const ValidationMetrics& metrics) {
  append(validation_file(metrics.name), io::to_json(to_value(metrics)));
}

}  // namespace glmtune::train
