#pragma once
// Progress of a run: at a terminal one line that rewrites itself below the log, otherwise nothing
// (a pipe gets the log's lines only).
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace glmtune::train {

// "1:02:03", "2:03"; "?" when nothing is known.
std::string duration_text(std::optional<double> seconds);
// "Training  40/100  40% [########------------]  ETA 2:03  loss 1.2345  lr 1.00e-05  12345 tok/s",
// cut to less than `width` columns.
std::string progress_text(const std::string& what, std::int64_t done, std::int64_t total,
                          const std::string& figures, std::optional<double> eta, int width);

class Progress {
 public:
  // first: steps done before this process started (resume). terminal: whether anything is shown.
  Progress(std::string what, std::int64_t first, std::int64_t total, bool terminal);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `figures`: "loss 1.2345  12345 tok/s".
  void update(std::int64_t done, const std::string& figures);
  // For work whose size is known only once it has begun.
  void set_total(std::int64_t total) { total_ = total; }
  // Seconds left at the pace of the last steps; none before the first one is over.
  std::optional<double> eta() const;

 private:
  void draw() const;
  void erase() const;

  std::string what_;
  std::int64_t done_, total_;
  bool terminal_;
  std::string figures_;
  std::chrono::steady_clock::time_point last_;
  std::optional<double> seconds_per_step_;  // smoothed
};

// Columns of the terminal on standard output; 80 when it does not say.
int terminal_width();

}  // namespace glmtune::train
