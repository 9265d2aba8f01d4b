#pragma once
// Progress of a run: at a terminal one line that rewrites itself below the log, otherwise nothing
// (a pipe gets the log's lines only), or for work that logs nothing by itself a line now and then.
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace glmtune::train {

// "1:02:03", "2:03"; "?" when nothing is known.
std::string duration_text(std::optional<double> seconds);
// "Training  40/100  40% [########------------]  ETA 2:03  loss 1.2345  lr 1.00e-05  12345 tok/s",
// cut to less than `width` columns.
std::string progress_text(const std::string& what, std::int64_t done, std::int64_t total,
                          const std::string& figures, std::optional<double> eta, int width);

// "Loading weights: 1.2 GiB of 4.0 GiB, 30%, ETA 0:05".
std::string plain_progress_text(const std::string& what, std::uint64_t done, std::uint64_t total,
                                std::optional<double> eta);

// One may be shown while another is: the inner one takes its place until it ends.
class Progress {
 public:
  // first: steps done before this process started (resume). terminal: whether anything is shown.
  Progress(std::string what, std::int64_t first, std::int64_t total, bool terminal);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `figures`: "loss 1.2345  12345 tok/s". The line is drawn again ten times a second at most.
  void update(std::int64_t done, const std::string& figures);
  // For work whose size is known only once it has begun.
  void set_total(std::int64_t total) { total_ = total; }
  // Seconds left at the pace of the last steps; none before the first one is over.
  std::optional<double> eta() const;

 private:
  void draw();
  void erase();

  std::string what_;
  std::int64_t done_, total_;
  bool terminal_;
  std::string figures_;
  std::chrono::steady_clock::time_point last_, drawn_;
  bool on_screen_ = false;
  std::function<void()> outer_;  // takes the line of the progress around this one off the screen
  std::optional<double> seconds_per_step_;  // smoothed
};

// Reading or writing many bytes: the progress line at a terminal, else a log line every few
// seconds; work that is done sooner says nothing.
class ByteProgress {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kEvery{5};

  ByteProgress(std::string what, bool terminal) : what_(std::move(what)), terminal_(terminal) {}
  // say: where a plain line goes.
  void update(std::uint64_t done, std::uint64_t total, Clock::time_point now,
              const std::function<void(const std::string&)>& say);
  void update(std::uint64_t done, std::uint64_t total);

 private:
  std::string what_;
  bool terminal_;
  std::optional<Progress> line_;  // at a terminal, once the total is known
  std::optional<Clock::time_point> first_;
  Clock::time_point said_;
};

// A ByteProgress as a function that keeps it alive.
std::function<void(std::uint64_t done, std::uint64_t total)> byte_progress(const char* what,
                                                                           bool terminal);

// Columns of the terminal on standard output; 80 when it does not say.
int terminal_width();

}  // namespace glmtune::train
