// Saves that end in the middle: killed before each change to the file system, out of space, not
// allowed to write.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/cat.h"
#include "io/files.h"
#include "io/safetensors.h"
#include "support/crash.h"
#include "support/temp_folder.h"
#include "train/checkpoint_folder.h"

namespace glmtune::train {
namespace {

namespace fs = std::filesystem;
using test::CrashResult;

// What a save writes, in small: a file below a folder of its own, a streamed tensor, a small file.
Checksums write_step(const std::string& folder, std::int64_t step) {
  fs::create_directories(folder + "/model/consolidated");
  io::write_file(folder + "/model/consolidated/config.json", cat("{\"step\": ", step, "}"));
  io::SafetensorsWriter writer(folder + "/state.safetensors",
                               {{.name = "w", .dtype = DType::kI64, .shape = {2}},
                                {.name = "v", .dtype = DType::kI64, .shape = {}}});
  for (int i = 0; i < 3; ++i) writer.append(&step, sizeof step);
  const std::uint32_t sum = writer.finish();
  io::write_file(folder + "/state.json", "{}");
  return {{"state.safetensors", sum}};
}

StepFolder save(const CheckpointFolder& folder, std::int64_t step) {
  return folder.save(0, step, [&](const std::string& path) { return write_step(path, step); });
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& e : fs::directory_iterator(folder)) names.push_back(e.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

// A folder is there with these files or not at all: one removed in part under its own name would
// pass for a checkpoint, or stand in the way of the next, whenever its mark or manifest went first.
void expect_all_or_nothing(const std::string& folder, const std::vector<std::string>& names) {
  EXPECT_TRUE(!fs::exists(folder) || names_in(folder) == names) << folder;
}

// A folder with step 4 saved in it.
struct WithOneCheckpoint {
  TempFolder temp;
  CheckpointFolder folder{temp / "out"};
  WithOneCheckpoint() { save(folder, 4); }

  // The newest whole checkpoint has every file as it was written, and nothing else is left.
  void expect_whole(std::int64_t step) const {
    std::string note;
    const auto found = folder.resolve("", &note);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->step, step);
    EXPECT_EQ(note, "");
    std::int64_t value = 0;
    const auto file = io::SafetensorsFile::open(found->path + "/state.safetensors");
    file.read_bytes(file.at("v"), 0, &value, sizeof value);
    EXPECT_EQ(value, step);
  }
};

TEST(CheckpointCrash, ASaveKilledAtAnyChangeOfTheDiskLosesNothing) {
  const CrashResult whole = [] {
    const WithOneCheckpoint w;
    return test::run_and_crash({.from = "out"}, [&] { save(w.folder, 9); });
  }();
  if (!whole.traced) GTEST_SKIP() << "this machine does not allow ptrace";
  ASSERT_EQ(whole.status, 0);
  ASSERT_GT(whole.changes, 30);
  int published = 0;
  for (int at = 0; at < whole.changes; ++at) {
    const WithOneCheckpoint w;
    const CrashResult r =
        test::run_and_crash({.at = at, .from = "out"}, [&] { save(w.folder, 9); });
    ASSERT_TRUE(r.killed);
    SCOPED_TRACE(cat("killed before change ", at, ": ", r.killed_before));
    const bool is_new = fs::exists(w.temp / "out/epoch_0_step_9/manifest.json") &&
                        !fs::exists(w.temp / "out/epoch_0_step_9/.incomplete");
    published += is_new ? 1 : 0;
    w.expect_whole(is_new ? 9 : 4);
    // The next start clears up; the same save then works, or has been done.
    w.folder.remove_leftovers();
    w.expect_whole(is_new ? 9 : 4);
    if (!is_new) save(w.folder, 9);
    w.expect_whole(9);
    for (const std::string& name : names_in(w.temp / "out"))
      EXPECT_TRUE(name == "LATEST" || name == "epoch_0_step_4" || name == "epoch_0_step_9") << name;
  }
  // From the moment the mark is gone the new checkpoint counts, LATEST or not.
  EXPECT_GT(published, 0);
  EXPECT_LT(published, 8);
}

TEST(CheckpointCrash, ASaveAfterAKilledOneNeedsNoClearingUp) {
  for (int at = 0;; ++at) {
    const WithOneCheckpoint w;
    const CrashResult r =
        test::run_and_crash({.at = at, .from = "out"}, [&] { save(w.folder, 9); });
    if (!r.traced) GTEST_SKIP() << "this machine does not allow ptrace";
    if (!r.killed) break;
    SCOPED_TRACE(cat("killed before change ", at, ": ", r.killed_before));
    if (w.folder.published().size() == 1) save(w.folder, 9);
    w.expect_whole(9);
  }
}

TEST(CheckpointCrash, ARemovalKilledAtAnyChangeLeavesWholeCheckpointsOnly) {
  for (int at = 0;; ++at) {
    const WithOneCheckpoint w;
    save(w.folder, 9);
    const std::string old = w.temp / "out/epoch_0_step_4";
    const std::vector<std::string> names = names_in(old);
    const CrashResult r =
        test::run_and_crash({.at = at, .from = "epoch_0_step_4"}, [&] { w.folder.retain(1); });
    if (!r.traced) GTEST_SKIP() << "this machine does not allow ptrace";
    SCOPED_TRACE(cat("killed before change ", at, ": ", r.killed_before));
    expect_all_or_nothing(old, names);
    w.expect_whole(9);
    for (const StepFolder& f : w.folder.published())
      EXPECT_EQ(check_manifest(f.path).state + check_manifest(f.path).others, "");
    w.folder.remove_leftovers();
    for (const std::string& name : names_in(w.temp / "out"))
      EXPECT_EQ(name.find(".removing"), std::string::npos);
    if (!r.killed) break;
  }
}

// A folder with step 4 saved in it and step 9 as a save leaves it that is killed late (with its
// manifest) or early.
struct WithAnUnfinishedSave : WithOneCheckpoint {
  explicit WithAnUnfinishedSave(bool has_manifest) {
    const std::string path = save(folder, 9).path;
    std::ofstream(path + "/.incomplete") << "";
    // The order of a removal is the file system's: among many the mark is not the last.
    for (int i = 0; i < 12; ++i) std::ofstream(cat(path, "/other_", i)) << "x";
    if (!has_manifest) fs::remove(path + "/manifest.json");
    folder.point("LATEST", {.epoch = 0, .step = 4, .path = temp / "out/epoch_0_step_4"});
  }
  // The next start goes on and can save where the killed one was saving.
  void expect_usable() const {
    folder.remove_leftovers();
    expect_whole(4);
    save(folder, 9);
    expect_whole(9);
    EXPECT_EQ(names_in(temp / "out"),
              (std::vector<std::string>{"LATEST", "epoch_0_step_4", "epoch_0_step_9"}));
  }
};

TEST(CheckpointCrash, ClearingUpKilledAtAnyChangeIsFinishedByTheNextStart) {
  for (const bool has_manifest : {true, false})
    for (int at = 0;; ++at) {
      const WithAnUnfinishedSave w(has_manifest);
      const std::string step = w.temp / "out/epoch_0_step_9";
      const std::vector<std::string> names = names_in(step);
      const CrashResult r = test::run_and_crash({.at = at}, [&] { w.folder.remove_leftovers(); });
      if (!r.traced) GTEST_SKIP() << "this machine does not allow ptrace";
      SCOPED_TRACE(cat("killed before change ", at, ": ", r.killed_before));
      expect_all_or_nothing(step, names);
      w.expect_usable();
      if (!r.killed) break;
    }
}

TEST(CheckpointCrash, ASaveKilledWhileItClearsUpIsFinishedByTheNextStart) {
  for (int at = 0; at < 24; ++at) {
    const WithAnUnfinishedSave w(true);
    const CrashResult r = test::run_and_crash({.at = at}, [&] { save(w.folder, 9); });
    if (!r.traced) GTEST_SKIP() << "this machine does not allow ptrace";
    ASSERT_TRUE(r.killed);
    SCOPED_TRACE(cat("killed before change ", at, ": ", r.killed_before));
    w.expect_usable();
  }
}

TEST(CheckpointCrash, ASaveThatFailedAndIsKilledWhileItsFolderGoesIsFinishedByTheNextStart) {
  const auto failing = [](const WithOneCheckpoint& w) {
    w.folder.save(0, 9, [&](const std::string& path) -> Checksums {
      write_step(path, 9);
      std::ofstream(path + "/the_last_one") << "x";
      fail("the disk is full");
    });
  };
  for (int at = 0;; ++at) {
    const WithOneCheckpoint w;
    const CrashResult r =
        test::run_and_crash({.at = at, .from = "the_last_one"}, [&] { failing(w); });
    if (!r.traced) GTEST_SKIP() << "this machine does not allow ptrace";
    SCOPED_TRACE(cat("killed before change ", at, ": ", r.killed_before));
    if (at > 0)  // the first change is the making of the last file
      expect_all_or_nothing(w.temp / "out/epoch_0_step_9", {".incomplete", "model", "state.json",
                                                            "state.safetensors", "the_last_one"});
    w.folder.remove_leftovers();
    w.expect_whole(4);
    save(w.folder, 9);
    w.expect_whole(9);
    if (!r.killed) break;
  }
}

// Runs `body` in a child; its message is 0 and a text, or 1 and an error's text.
std::pair<int, std::string> in_a_child(const std::function<void()>& body) {
  int ends[2];
  check(::pipe(ends) == 0, "no pipe");
  const pid_t process = ::fork();
  if (process == 0) {
    int status = 0;
    try {
      body();
    } catch (const MachineError& e) {
      status = 3;
      (void)!::write(ends[1], e.what(), std::string_view(e.what()).size());
    } catch (const std::exception& e) {
      status = 1;
      (void)!::write(ends[1], e.what(), std::string_view(e.what()).size());
    }
    ::_exit(status);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(n));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(process, &status, 0);
  return {WEXITSTATUS(status), text};
}

TEST(CheckpointCrash, ASaveInProgressOfAnotherProcessIsLeftAlone) {
  const WithOneCheckpoint w;
  int begun[2], finish[2];
  ASSERT_EQ(::pipe(begun) + ::pipe(finish), 0);
  const pid_t process = ::fork();
  if (process == 0) {
    w.folder.save(0, 9, [&](const std::string& path) {
      (void)!::write(begun[1], "x", 1);
      char go = 0;
      (void)!::read(finish[0], &go, 1);
      return write_step(path, 9);
    });
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(begun[0], &byte, 1), 1);
  EXPECT_TRUE(w.folder.remove_leftovers().empty());
  try {
    save(w.folder, 9);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("another process"), std::string::npos) << e.what();
  }
  ASSERT_EQ(::write(finish[1], "x", 1), 1);
  int status = 0;
  ::waitpid(process, &status, 0);
  EXPECT_EQ(status, 0);
  for (const int fd : {begun[0], begun[1], finish[0], finish[1]}) ::close(fd);
  w.expect_whole(9);
}

TEST(CheckpointCrash, AFileBeyondTheLimitOfItsSizeLeavesTheEarlierCheckpoint) {
  const WithOneCheckpoint w;
  const auto [status, text] = in_a_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100, 100};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    save(w.folder, 9);
  });
  EXPECT_EQ(status, 3) << text;
  EXPECT_NE(text.find("state.safetensors: writing"), std::string::npos) << text;
  EXPECT_EQ(names_in(w.temp / "out"), (std::vector<std::string>{"LATEST", "epoch_0_step_4"}));
  w.expect_whole(4);
}

TEST(CheckpointCrash, AFullDiskEndsTheSaveAndLeavesTheEarlierCheckpoint) {
  const TempFolder temp;
  if (::mount("glmtune-test", temp.path().c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "this user cannot mount a small file system";
  const CheckpointFolder folder(temp / "out");
  save(folder, 4);
  std::string text;
  try {
    folder.save(0, 9, [&](const std::string& path) {
      write_step(path, 9);
      io::write_file(path + "/large", std::string(100000, 'x'));
      return Checksums{};
    });
  } catch (const MachineError& e) {
    text = e.what();
  }
  EXPECT_NE(text.find("No space left on device"), std::string::npos) << text;
  EXPECT_NE(text.find("free space"), std::string::npos) << text;
  EXPECT_EQ(names_in(temp / "out"), (std::vector<std::string>{"LATEST", "epoch_0_step_4"}));
  EXPECT_EQ(folder.resolve("", nullptr)->step, 4);
  ::umount(temp.path().c_str());
}

TEST(CheckpointCrash, AFolderThatMayNotBeWrittenIsNamedWithTheReason) {
  const WithOneCheckpoint w;
  fs::permissions(w.temp / "out", fs::perms::owner_read | fs::perms::owner_exec |
                                      fs::perms::others_read | fs::perms::others_exec);
  fs::permissions(w.temp.path(), fs::perms::all);
  const auto [status, text] = in_a_child([&] {
    // Root may write everywhere.
    if (::geteuid() == 0) check(::setuid(65534) == 0, "cannot become nobody");
    save(w.folder, 9);
  });
  fs::permissions(w.temp / "out", fs::perms::owner_all);
  EXPECT_EQ(status, 1) << text;
  EXPECT_NE(text.find(w.temp / "out"), std::string::npos) << text;
  EXPECT_NE(text.find("ermission denied"), std::string::npos) << text;
  w.expect_whole(4);
}

TEST(CheckpointManifest, AChangedByteOfTheStateIsFoundAndTheCheckpointBeforeIsTaken) {
  const WithOneCheckpoint w;
  const StepFolder damaged = save(w.folder, 9);
  const std::string path = damaged.path + "/state.safetensors";
  std::string bytes = io::read_file(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 4);
  std::ofstream(path, std::ios::binary) << bytes;
  std::string note;
  EXPECT_EQ(w.folder.resolve("", &note)->step, 4);
  EXPECT_NE(note.find("state.safetensors has changed since it was written"), std::string::npos)
      << note;
  try {
    (void)w.folder.resolve("epoch_0_step_9", &note);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("crc32c"), std::string::npos) << e.what();
  }
}

TEST(CheckpointManifest, DamageOfTheExportIsSaidButDoesNotStopAResume) {
  const WithOneCheckpoint w;
  const std::string config = w.temp / "out/epoch_0_step_4/model/consolidated/config.json";
  std::ofstream(config) << "{\"step\": 55}";
  for (const char* from : {"", "epoch_0_step_4"}) {
    std::string note;
    EXPECT_EQ(w.folder.resolve(from, &note)->step, 4);
    EXPECT_NE(note.find("model/consolidated/config.json has 12 bytes"), std::string::npos) << note;
  }
  // Of the right size it is not read, which would take as long as the model is large.
  std::ofstream(config) << "{\"step\": 5}";
  EXPECT_EQ(check_manifest(w.temp / "out/epoch_0_step_4").others, "");
  EXPECT_NE(damage_of(w.temp / "out/epoch_0_step_4", "model/consolidated/config.json")
                .find("has changed since it was written"),
            std::string::npos);
}

TEST(CheckpointManifest, AFileThatCannotBeReadIsItsOwnDamageOnly) {
  const WithOneCheckpoint w;
  const std::string folder = w.temp / "out/epoch_0_step_4";
  // A folder in place of a file has no size to read.
  fs::remove(folder + "/model/consolidated/config.json");
  fs::create_directory(folder + "/model/consolidated/config.json");
  EXPECT_EQ(check_manifest(folder).state, "");
  EXPECT_NE(check_manifest(folder).others, "");
  EXPECT_EQ(w.folder.resolve("", nullptr)->step, 4);
}

TEST(CheckpointManifest, HoldsTheChecksumOfEveryFile) {
  const WithOneCheckpoint w;
  const std::string folder = w.temp / "out/epoch_0_step_4/";
  const std::string manifest = io::read_file(folder + kManifestName);
  for (const char* name : {"model/consolidated/config.json", "state.json", "state.safetensors"}) {
    char sum[16];
    std::snprintf(sum, sizeof sum, "%08x", io::file_checksum(folder + name));
    EXPECT_NE(manifest.find(cat("\"crc32c\": \"", sum, "\"")), std::string::npos) << name;
  }
}

TEST(CheckpointManifest, WithoutChecksumsSizesAreChecked) {
  const WithOneCheckpoint w;
  const std::string folder = w.temp / "out/epoch_0_step_4/";
  std::string text = io::read_file(folder + kManifestName);
  for (std::size_t at = 0; (at = text.find(",\n      \"crc32c\"")) != std::string::npos;)
    text.erase(at, text.find('\n', at + 2) - at);
  io::write_file(folder + kManifestName, text);
  EXPECT_EQ(check_manifest(folder).state, "");
  std::ofstream(folder + "state.json", std::ios::app) << " ";
  EXPECT_EQ(check_manifest(folder).state, "state.json has 3 bytes instead of 2");
}

TEST(CheckpointFolder, AFolderOfOthersIsSaidToBeOccupiedAndLeftAlone) {
  const WithOneCheckpoint w;
  fs::create_directories(w.temp / "out/epoch_0_step_7");
  std::ofstream(w.temp / "out/epoch_0_step_7/notes.txt") << "mine";
  fs::create_directories(w.temp / "out/epoch_0_step_8");  // empty: a save may take it
  std::vector<std::int64_t> steps;
  for (const StepFolder& f : w.folder.occupied()) steps.push_back(f.step);
  std::sort(steps.begin(), steps.end());
  EXPECT_EQ(steps, (std::vector<std::int64_t>{4, 7}));
  EXPECT_TRUE(w.folder.remove_leftovers().empty());
  EXPECT_THROW(save(w.folder, 7), Error);
  EXPECT_EQ(io::read_file(w.temp / "out/epoch_0_step_7/notes.txt"), "mine");
  EXPECT_EQ(save(w.folder, 8).step, 8);
}

}  // namespace
}  // namespace glmtune::train
