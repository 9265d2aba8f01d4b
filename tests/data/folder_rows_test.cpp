// Which files of a folder are its rows.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/cat.h"
#include "data/rows.h"
#include "data/split_files.h"
#include "io/files.h"
#include "support/message_of.h"
#include "support/temp_folder.h"

namespace glmtune::data {
namespace {

namespace fs = std::filesystem;
using List = std::vector<std::string>;

class FolderRows : public ::testing::Test {
 protected:
  void file(const std::string& name) const {
    fs::create_directories(fs::path(temp_ / name).parent_path());
    io::write_file(temp_ / name, "{\"v\": 1}\n");
  }
  List chosen(const std::string& split = "train") const {
    List out;
    for (const std::string& path : data_files({temp_.path()}, split))
      out.push_back(fs::path(path).lexically_relative(temp_.path()).generic_string());
    return out;
  }
  std::string notes() const {
    std::string out;
    for (const Count& c : files_left_out({temp_.path()}, "train"))
      out += c.what + ": " + std::to_string(c.count) + "\n";
    return out;
  }
  TempFolder temp_;
};

// A whole snapshot of the hub often has the original files and those the hub converted.
TEST_F(FolderRows, TheSameRowsInTwoFormatsAreReadOnce) {
  for (const char* name : {"train.jsonl", "train-00000-of-00002.parquet",
                           "train-00001-of-00002.parquet", "test.jsonl"})
    file(name);
  EXPECT_EQ(chosen(), (List{"train-00000-of-00002.parquet", "train-00001-of-00002.parquet"}));
  EXPECT_EQ(chosen("test"), List{"test.jsonl"});
  EXPECT_EQ(notes(),
            "files of 4 that are not of split train, left out (test.jsonl): 1\n"
            "files of 4 that are there in another form than train-00000-of-00002.parquet, left out "
            "(train.jsonl): 1\n");
}

// Whether these are the same rows only the user knows; a snapshot of the hub has its own rule.
TEST_F(FolderRows, TwoFormatsInDifferentFoldersAreRefused) {
  for (const char* name : {"chat/train.jsonl", "code/train.parquet"}) file(name);
  std::string said;
  try {
    (void)chosen();
  } catch (const Error& e) {
    said = e.what();
  }
  EXPECT_NE(said.find("chat/train.jsonl and code/train.parquet are of two formats"),
            std::string::npos)
      << said;
}

TEST_F(FolderRows, ASlashBehindAFolderChangesNothing) {
  for (const char* name : {"snapshots/abc/data/train.jsonl", "snapshots/abc/train.parquet"})
    file(name);
  const std::string folder = temp_ / "snapshots/abc";
  const List files = data_files({folder}, "train");
  EXPECT_EQ(files, List{folder + "/train.parquet"});
  EXPECT_EQ(data_files({folder + "//"}, "train"), files);
}

TEST_F(FolderRows, FilesOfOneFormatAreAllRead) {
  for (const char* name : {"a.jsonl", "b.json", "c.jsonl.gz"}) file(name);
  EXPECT_EQ(chosen(), (List{"a.jsonl", "b.json", "c.jsonl.gz"}));
  EXPECT_EQ(notes(), "");
}

TEST_F(FolderRows, HiddenFilesAreNoRows) {
  for (const char* name : {"train.jsonl", "._train.jsonl",
                           ".ipynb_checkpoints/train-checkpoint.jsonl", "__MACOSX/train.jsonl"})
    file(name);
  EXPECT_EQ(chosen(), List{"train.jsonl"});
  EXPECT_EQ(notes(), "");
}

// Only what lies below the folder that was named is judged.
TEST_F(FolderRows, AHiddenFolderMayBeNamed) {
  file(".mine/train.jsonl");
  EXPECT_EQ(data_files({temp_ / ".mine"}, "train"), List{temp_ / ".mine/train.jsonl"});
}

TEST_F(FolderRows, FoldersBehindLinksAreReadOnce) {
  const TempFolder elsewhere;
  io::write_file(elsewhere / "b.jsonl", "{\"v\": 1}\n");
  file("v1/a.jsonl");
  fs::create_directory_symlink(elsewhere.path(), temp_ / "part2");
  fs::create_directory_symlink("..", temp_ / "v1/loop");
  fs::create_directory_symlink("v1", temp_ / "v2");  // another name of the same files
  EXPECT_EQ(chosen(), (List{"part2/b.jsonl", "v1/a.jsonl"}));
}

TEST_F(FolderRows, ASplitMayBeALinkToAnother) {
  file("train/a.jsonl");
  fs::create_directory_symlink("train", temp_ / "validation");
  EXPECT_EQ(chosen(), List{"train/a.jsonl"});
  EXPECT_EQ(chosen("validation"), List{"validation/a.jsonl"});
}

// The hub's cache has one blob for files that are equal.
TEST_F(FolderRows, EqualFilesOfTheHubsCacheAreAllRead) {
  file(".blobs/0");
  for (const char* name : {"a.jsonl", "b.jsonl"}) fs::create_symlink(".blobs/0", temp_ / name);
  EXPECT_EQ(chosen(), (List{"a.jsonl", "b.jsonl"}));
}

TEST_F(FolderRows, FilesThatAreNamedTwiceAreSaid) {
  for (const char* name : {"data/a.jsonl", "data/b.jsonl", "c.jsonl"}) file(name);
  fs::create_symlink("data/a.jsonl", temp_ / "link.jsonl");
  fs::create_hard_link(temp_ / "data/b.jsonl", temp_ / "hard.jsonl");
  fs::create_directory_symlink("data", temp_ / "same");
  const auto said = [&](const List& names) {
    List paths;
    for (const std::string& name : names) paths.push_back(temp_ / name);
    return files_repeated(paths, "train");
  };
  EXPECT_EQ(said({"data", "c.jsonl"}), "");
  for (const List& names : std::vector<List>{{"data", "data/a.jsonl"},
                                             {"data/a.jsonl", "data/a.jsonl", "data/a.jsonl"},
                                             {"data/a.jsonl", "link.jsonl"},
                                             {"data/a.jsonl", "same/a.jsonl"}}) {
    const std::string text = said(names);
    EXPECT_TRUE(text.starts_with(temp_ / names.back() + " is named more than once")) << text;
  }
  EXPECT_NE(said({"data/b.jsonl", "hard.jsonl"}), "");
  EXPECT_TRUE(said({"data", "same"})
                  .starts_with(cat(temp_ / "same/a.jsonl", ", ", temp_ / "same/b.jsonl", " are ")));
}

TEST_F(FolderRows, EqualFilesOfTheHubsCacheAreNotNamedTwice) {
  file("blobs/0");
  for (const char* name : {"a.jsonl", "b.jsonl"}) fs::create_symlink("blobs/0", temp_ / name);
  EXPECT_EQ(files_repeated({temp_ / "a.jsonl", temp_ / "b.jsonl"}, "train"), "");
  EXPECT_NE(files_repeated({temp_ / "a.jsonl", temp_ / "a.jsonl"}, "train"), "");
}

TEST_F(FolderRows, ALinkThatLeadsNowhereIsAnError) {
  file("a.jsonl");
  fs::create_symlink("/nowhere/b.jsonl", temp_ / "b.jsonl");
  EXPECT_NE(test::message_of([&] { chosen(); }).find("b.jsonl: a link that leads nowhere"),
            std::string::npos);
}

}  // namespace
}  // namespace glmtune::data
