// A run's logs when it starts: every step once, nothing lost, killed at any moment.
#include "train/log_rewind.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/cat.h"
#include "io/files.h"
#include "support/crash.h"
#include "support/message_of.h"
#include "support/temp_folder.h"

namespace glmtune::train {
namespace {

namespace fs = std::filesystem;

std::string line(int step, const std::string& run) {
  return cat("{\"step\": ", step, ", \"timestamp\": \"", run, "\"}\n");
}

std::string steps_of(int first, int end, const std::string& run) {
  std::string text;
  for (int step = first; step < end; ++step) text += line(step, run);
  return text;
}

// A log in a folder of its own.
struct Log {
  TempFolder temp;
  std::string path = temp / "training.jsonl";

  explicit Log(const std::string& text) { add(text); }
  void add(const std::string& text) const { std::ofstream(path, std::ios::app) << text; }
  std::string kept() const { return io::read_file(path); }
  std::string moved() const {
    const std::string superseded = path + ".superseded";
    return fs::exists(superseded) ? io::read_file(superseded) : "";
  }
};

TEST(LogRewind, ARunThatGoesOnKeepsTheStepsBeforeAndMovesTheOthers) {
  const Log log(steps_of(0, 6, "first"));
  EXPECT_EQ(rewind_log(log.path, 4), 2);
  EXPECT_EQ(log.kept(), steps_of(0, 4, "first"));
  EXPECT_EQ(log.moved(), steps_of(4, 6, "first"));
}

TEST(LogRewind, AFreshStartMovesAllLines) {
  const Log log(steps_of(0, 3, "first"));
  EXPECT_EQ(rewind_log(log.path, 0), 3);
  EXPECT_EQ(log.kept(), "");
  EXPECT_EQ(log.moved(), steps_of(0, 3, "first"));
}

TEST(LogRewind, WhatMovesGoesBelowWhatMovedBefore) {
  const Log log(steps_of(0, 2, "first"));
  rewind_log(log.path, 0);
  log.add(steps_of(0, 3, "second"));
  EXPECT_EQ(rewind_log(log.path, 1), 2);
  EXPECT_EQ(log.kept(), line(0, "second"));
  EXPECT_EQ(log.moved(), steps_of(0, 2, "first") + steps_of(1, 3, "second"));
}

TEST(LogRewind, TornAndForeignLinesMoveToo) {
  const Log log(line(0, "a") + "not JSON\n\n[1]\n{\"step\": \"0\"}\n" + line(1, "a") +
                "{\"step\": 2, \"lo");
  EXPECT_EQ(rewind_log(log.path, 9), 5);
  EXPECT_EQ(log.kept(), steps_of(0, 2, "a"));
  EXPECT_EQ(log.moved(), "not JSON\n\n[1]\n{\"step\": \"0\"}\n{\"step\": 2, \"lo\n");
}

TEST(LogRewind, AFileThatNoRunWroteIsAnErrorAndKeepsItsLines) {
  const std::string rows = "{\"messages\": []}\n{\"messages\": []}\n";
  const Log log(rows);
  EXPECT_NE(test::message_of([&] { rewind_log(log.path, 0); }).find("is a step of a run"),
            std::string::npos);
  EXPECT_EQ(log.kept(), rows);
  EXPECT_EQ(log.moved(), "");
}

// Zeros are what a power loss leaves of a block.
TEST(LogRewind, ALogWhoseFirstLineIsDamagedIsOneStill) {
  const std::string zeros(10, '\0');
  const Log log(zeros + "\n" + line(1, "a") + line(2, "a"));
  EXPECT_EQ(rewind_log(log.path, 2), 2);
  EXPECT_EQ(log.kept(), line(1, "a"));
  EXPECT_EQ(log.moved(), zeros + "\n" + line(2, "a"));
}

TEST(LogRewind, AnOnlyLineWithoutItsEndIsALogsWhereItBeginsLikeOne) {
  const Log log("{\"step\": 0, \"ti");
  EXPECT_EQ(rewind_log(log.path, 0), 1);
  const Log zeros(std::string(20, '\0'));
  EXPECT_EQ(rewind_log(zeros.path, 0), 1);
  const Log rows("{\"messages\": []}");
  EXPECT_NE(test::message_of([&] { rewind_log(rows.path, 0); }), "");
  EXPECT_EQ(rows.kept(), "{\"messages\": []}");
}

TEST(LogRewind, FilesOfSuchNamesThatThisRunDoesNotWriteAreLeftAlone) {
  const Log log(steps_of(0, 2, "a"));
  const std::string rows = "{\"messages\": []}";
  io::write_file(log.temp / "validation-set.jsonl", rows + "\n");
  io::write_file(log.temp / "validation_rows.jsonl", rows);
  rewind_logs(log.temp.path(), {"training.jsonl", "validation.jsonl"}, 1);
  EXPECT_EQ(io::read_file(log.temp / "validation-set.jsonl"), rows + "\n");
  EXPECT_EQ(io::read_file(log.temp / "validation_rows.jsonl"), rows);
  const auto check = [&] { check_logs(log.temp.path(), {"validation_rows.jsonl"}); };
  EXPECT_NE(test::message_of(check).find("validation_rows.jsonl: none of its lines"),
            std::string::npos);
}

TEST(LogRewind, ALogOfStepsBeforeAndAMissingOneAreLeftAlone) {
  const Log log(steps_of(0, 3, "first"));
  const fs::file_time_type written = fs::last_write_time(log.path);
  EXPECT_EQ(rewind_log(log.path, 3), 0);
  EXPECT_EQ(fs::last_write_time(log.path), written);
  EXPECT_EQ(log.moved(), "");
  EXPECT_EQ(rewind_log(log.temp / "validation.jsonl", 0), 0);
  EXPECT_FALSE(fs::exists(log.temp / "validation.jsonl"));
}

TEST(LogRewind, EveryLogOfTheFolderIsRewoundAndNoOtherFile) {
  const Log log(steps_of(0, 3, "a"));
  for (const char* name : {"validation.jsonl", "validation_math.jsonl", "notes.jsonl"})
    std::ofstream(log.temp / name) << steps_of(0, 3, "a");
  rewind_logs(log.temp.path(), {"training.jsonl", "validation.jsonl"}, 1);
  EXPECT_EQ(log.kept(), line(0, "a"));
  EXPECT_EQ(io::read_file(log.temp / "validation.jsonl"), line(0, "a"));
  EXPECT_EQ(io::read_file(log.temp / "validation_math.jsonl"), line(0, "a"));
  EXPECT_EQ(io::read_file(log.temp / "validation_math.jsonl.superseded"), steps_of(1, 3, "a"));
  EXPECT_EQ(io::read_file(log.temp / "notes.jsonl"), steps_of(0, 3, "a"));
}

TEST(LogRewind, KilledAtAnyChangeOfTheDiskItLosesNoLineAndWritesNoneTwice) {
  const std::string older = steps_of(0, 2, "older");
  for (int at = 0;; ++at) {
    const Log log(older);
    rewind_log(log.path, 0);
    log.add(steps_of(0, 5, "newer"));
    const test::CrashResult r = test::run_and_crash({.at = at, .from = "training"}, [&] {
      rewind_logs(log.temp.path(), {"training.jsonl"}, 3);
    });
    if (!r.traced) GTEST_SKIP() << "this machine does not allow ptrace";
    SCOPED_TRACE(cat("killed before change ", at, ": ", r.killed_before));
    const std::string left = log.kept() + log.moved();
    for (const std::string& every : {older, steps_of(0, 3, "newer"), steps_of(3, 5, "newer")})
      EXPECT_NE(left.find(every), std::string::npos) << left;
    rewind_logs(log.temp.path(), {"training.jsonl"}, 3);
    EXPECT_EQ(log.kept(), steps_of(0, 3, "newer"));
    EXPECT_EQ(log.moved(), older + steps_of(3, 5, "newer"));
    for (const auto& e : fs::directory_iterator(log.temp.path()))
      EXPECT_TRUE(e.path().filename() == "training.jsonl" ||
                  e.path().filename() == "training.jsonl.superseded")
          << e.path();
    if (!r.killed) {
      EXPECT_GT(at, 8);
      break;
    }
  }
}

}  // namespace
}  // namespace glmtune::train
