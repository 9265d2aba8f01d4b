#include "train/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "base/cat.h"
#include "io/files.h"
#include "train/log.h"

namespace glmtune::train {
namespace {

constexpr int kBarWidth = 20;
constexpr double kNewWeight = 0.2;  // of the last step in the smoothed pace
constexpr std::chrono::milliseconds kRedraw{100};
constexpr std::uint64_t kMegabyte = 1'000'000;

}  // namespace

std::string duration_text(std::optional<double> seconds) {
  if (!seconds || !std::isfinite(*seconds)) return "?";
  const auto whole = static_cast<std::int64_t>(std::llround(std::max(*seconds, 0.0)));
  char buffer[32];
  if (whole >= 3600) {
    std::snprintf(buffer, sizeof buffer, "%lld:%02d:%02d", static_cast<long long>(whole / 3600),
                  static_cast<int>(whole / 60 % 60), static_cast<int>(whole % 60));
  } else {
    std::snprintf(buffer, sizeof buffer, "%d:%02d", static_cast<int>(whole / 60),
                  static_cast<int>(whole % 60));
  }
  return buffer;
}

std::string progress_text(const std::string& what, std::int64_t done, std::int64_t total,
                          const std::string& figures, std::optional<double> eta, int width) {
  const std::int64_t shown = std::clamp<std::int64_t>(done, 0, std::max<std::int64_t>(total, 0));
  const std::int64_t percent = total > 0 ? shown * 100 / total : 100;
  const auto filled = static_cast<std::size_t>(total > 0 ? shown * kBarWidth / total : kBarWidth);
  const std::string bar = std::string(filled, '#') + std::string(kBarWidth - filled, '-');
  std::string line = cat(what, "  ", done, "/", total, "  ", percent, "% [", bar, "]  ETA ",
                         duration_text(eta), figures.empty() ? "" : "  ", figures);
  const auto columns = static_cast<std::size_t>(std::max(width - 1, 1));
  if (line.size() > columns) line.resize(columns);
  return line;
}

int terminal_width() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string plain_progress_text(const std::string& what, std::uint64_t done, std::uint64_t total,
                                std::optional<double> eta) {
  const std::uint64_t percent = total > 0 ? done * 100 / total : 100;
  return cat(what, ": ", io::human_bytes(done), " of ", io::human_bytes(total), ", ", percent,
             "%, ETA ", duration_text(eta));
}

Progress::Progress(std::string what, std::int64_t first, std::int64_t total, bool terminal)
    : what_(std::move(what)),
      done_(first),
      total_(total),
      terminal_(terminal),
      last_(std::chrono::steady_clock::now()) {
  if (!terminal_) return;
  outer_ = set_before_log_line([this] { erase(); });
  if (outer_) outer_();
  draw();
}

Progress::~Progress() {
  if (!terminal_) return;
  if (outer_)
    erase();
  else
    std::fputs("\n", stdout);
  std::fflush(stdout);
  set_before_log_line(std::move(outer_));
}

void Progress::update(std::int64_t done, const std::string& figures) {
  const auto now = std::chrono::steady_clock::now();
  if (done > done_) {
    const double pace =
        std::chrono::duration<double>(now - last_).count() / static_cast<double>(done - done_);
    seconds_per_step_ =
        seconds_per_step_ ? kNewWeight * pace + (1 - kNewWeight) * *seconds_per_step_ : pace;
  }
  last_ = now;
  done_ = done;
  figures_ = figures;
  if (terminal_ && (!on_screen_ || done_ >= total_ || now - drawn_ >= kRedraw)) draw();
}

std::optional<double> Progress::eta() const {
  if (!seconds_per_step_) return std::nullopt;
  return *seconds_per_step_ * static_cast<double>(std::max<std::int64_t>(total_ - done_, 0));
}

void Progress::erase() {
  on_screen_ = false;
  std::fputs("\r\x1b[K", stdout);
  std::fflush(stdout);
}

void Progress::draw() {
  on_screen_ = true;
  drawn_ = std::chrono::steady_clock::now();
  const std::string line = progress_text(what_, done_, total_, figures_, eta(), terminal_width());
  std::fputs(cat("\r\x1b[K", line).c_str(), stdout);
  std::fflush(stdout);
}

void ByteProgress::update(std::uint64_t done, std::uint64_t total, Clock::time_point now,
                          const std::function<void(const std::string&)>& say) {
  if (!first_) first_ = said_ = now;
  if (terminal_) {
    const auto megabytes = [](std::uint64_t bytes) {
      return static_cast<std::int64_t>(bytes / kMegabyte);
    };
    if (!line_) line_.emplace(what_ + ", MB", 0, megabytes(total), true);
    line_->update(megabytes(done), "");
    return;
  }
  if (now - said_ < kEvery || done == 0 || done >= total) return;
  said_ = now;
  const double seconds = std::chrono::duration<double>(now - *first_).count();
  const double left = static_cast<double>(total - done) / static_cast<double>(done);
  say(plain_progress_text(what_, done, total, seconds * left));
}

void ByteProgress::update(std::uint64_t done, std::uint64_t total) {
  update(done, total, Clock::now(), log_info);
}

std::function<void(std::uint64_t done, std::uint64_t total)> byte_progress(const char* what,
                                                                           bool terminal) {
  return [progress = std::make_shared<ByteProgress>(what, terminal)](
             std::uint64_t done, std::uint64_t total) { progress->update(done, total); };
}

}  // namespace glmtune::train
