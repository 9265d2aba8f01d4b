#include "train/progress.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace glmtune::train {
namespace {

TEST(Progress, SpellsDurations) {
  EXPECT_EQ(duration_text(std::nullopt), "?");
  EXPECT_EQ(duration_text(0), "0:00");
  EXPECT_EQ(duration_text(123), "2:03");
  EXPECT_EQ(duration_text(3723), "1:02:03");
}

TEST(Progress, ShowsShareFiguresAndTimeLeft) {
  EXPECT_EQ(progress_text("Training", 40, 100, "loss 1.2345", 123, 100),
            "Training  40/100  40% [########------------]  ETA 2:03  loss 1.2345");
  EXPECT_EQ(progress_text("Training", 0, 0, "", std::nullopt, 100),
            "Training  0/0  100% [####################]  ETA ?");
}

TEST(Progress, MoreThanAllIsAll) {
  EXPECT_EQ(progress_text("Reading", 7, 1, "", 0, 100),
            "Reading  7/1  100% [####################]  ETA 0:00");
}

TEST(Progress, FitsTheTerminal) {
  EXPECT_EQ(progress_text("Training", 40, 100, "loss 1.2345", 123, 40).size(), 39u);
}

TEST(ByteProgress, SaysAPlainLineEveryFewSecondsOnly) {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  ByteProgress progress("Loading weights", false);
  std::vector<std::string> lines;
  const ByteProgress::Clock::time_point start{};
  const auto at = [&](int seconds, std::uint64_t done) {
    progress.update(done, 4 * kGiB, start + std::chrono::seconds(seconds),
                    [&](const std::string& line) { lines.push_back(line); });
  };
  at(0, 0);
  at(1, kGiB / 10 * 4);
  at(5, kGiB);
  at(7, kGiB / 2 * 3);
  at(11, 2 * kGiB);
  at(30, 4 * kGiB);  // done: the caller says so
  EXPECT_EQ(lines,
            (std::vector<std::string>{"Loading weights: 1.00 GiB of 4.00 GiB, 25%, ETA 0:15",
                                      "Loading weights: 2.00 GiB of 4.00 GiB, 50%, ETA 0:11"}));
}

TEST(Progress, KnowsTheTimeLeftAfterTheFirstStep) {
  Progress progress("Training", 0, 3, false);
  EXPECT_EQ(progress.eta(), std::nullopt);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  progress.update(1, "");
  ASSERT_TRUE(progress.eta().has_value());
  EXPECT_GE(*progress.eta(), 0.04);
  progress.update(3, "");
  EXPECT_EQ(progress.eta(), 0.0);
}

}  // namespace
}  // namespace glmtune::train
