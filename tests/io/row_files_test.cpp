// Which files are rows, which of them are the same rows, and what lies below a folder.
#include "io/row_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/cat.h"
#include "io/files.h"
#include "io/folder_files.h"
#include "support/message_of.h"
#include "support/temp_folder.h"

namespace glmtune::io {
namespace {

namespace fs = std::filesystem;
using List = std::vector<std::string>;

TEST(RowFiles, WhatEditorsAndSystemsLeaveIsHidden) {
  for (const char* path : {".a.jsonl", ".ipynb_checkpoints/a.jsonl", "data/._a.jsonl",
                           "data/.git/x/a.jsonl", "__pycache__/a.jsonl", "a/__MACOSX/b.jsonl"})
    EXPECT_TRUE(is_hidden(path)) << path;
  for (const char* path :
       {"", "a.jsonl", "data/a.b.jsonl", "__a.jsonl", "a__/b.jsonl", "_a/b.jsonl"})
    EXPECT_FALSE(is_hidden(path)) << path;
}

TEST(RowFiles, OfTwoFormatsTheOneWithMoreFilesIsChosen) {
  const OneForm json = one_form({"a.parquet", "b.json", "c.jsonl.gz"});
  EXPECT_EQ(json.chosen, (List{"b.json", "c.jsonl.gz"}));
  EXPECT_EQ(json.others, List{"a.parquet"});
  EXPECT_EQ(one_form({"a.jsonl", "d/b.parquet", "d/c.parquet"}).chosen,
            (List{"d/b.parquet", "d/c.parquet"}));
  EXPECT_EQ(one_form({"train.jsonl", "train.parquet"}).chosen, List{"train.parquet"});
  EXPECT_TRUE(one_form({}).chosen.empty());
}

TEST(RowFiles, AFileBesideItsPackedTwinIsOneFile) {
  const OneForm one = one_form({"d/a.jsonl", "d/a.jsonl.gz", "d/b.json.zst", "e/a.jsonl.gz"});
  EXPECT_EQ(one.chosen, (List{"d/a.jsonl", "d/b.json.zst", "e/a.jsonl.gz"}));
  EXPECT_EQ(one.others, List{"d/a.jsonl.gz"});
  // Twins are no second file that would outvote the other format.
  EXPECT_EQ(one_form({"a.json", "a.jsonl", "a.parquet"}).chosen, List{"a.parquet"});
}

TEST(RowFiles, PathsNameSubsetAndSplit) {
  for (const auto& [path, part] : std::vector<std::pair<std::string, std::string>>{
           {"a.jsonl", "train"},
           {"data/train-00000-of-00002-0123456789abcdef.parquet", "train"},
           {"train_12.json.gz", "train"},
           {"en/part-3.jsonl", "en/train"},
           {"data/en/val-00000-of-00001.parquet", "en/validation"},
           {"default/test/0000.parquet", "test"},
           {"en/dev/0.jsonl", "en/validation"},
           {"data/train_sft-00000-of-00003.parquet", "train_sft"},
           {"123.jsonl", "train"}})
    EXPECT_EQ(part_of_rows(path), part) << path;
}

TEST(RowFiles, WhatIsThereAlreadyDecides) {
  const List both{"a.jsonl", "a.jsonl.gz", "p/0.parquet", "p/1.parquet"};
  EXPECT_EQ(one_form(both).chosen, (List{"p/0.parquet", "p/1.parquet"}));
  EXPECT_EQ(one_form(both, {"a.jsonl.gz"}).chosen, List{"a.jsonl.gz"});
  EXPECT_EQ(one_form(both, {"a.jsonl", "p/1.parquet"}).chosen,
            (List{"p/0.parquet", "p/1.parquet"}));
}

class FolderFiles : public ::testing::Test {
 protected:
  void file(const std::string& name) const {
    fs::create_directories(fs::path(temp_ / name).parent_path());
    write_file(temp_ / name, "x");
  }
  TempFolder temp_;
};

TEST_F(FolderFiles, LinksToFoldersAreFollowedButNotBackUp) {
  const TempFolder elsewhere;
  write_file(elsewhere / "c", "x");
  file("a/b");
  fs::create_directory_symlink(elsewhere.path(), temp_ / "part2");
  fs::create_directory_symlink("..", temp_ / "a/up");
  fs::create_directory_symlink("a", temp_ / "again");
  fs::create_symlink("nowhere", temp_ / "dead");
  EXPECT_EQ(files_below(temp_.path()), (List{"a/b", "again/b", "dead", "part2/c"}));
}

TEST_F(FolderFiles, HiddenOnesAreListedWhereTheyAreAskedFor) {
  for (const char* name : {"a", ".b", ".c/d", "__e/f", "__g"}) file(name);
  EXPECT_EQ(files_below(temp_.path()), (List{"__g", "a"}));
  EXPECT_EQ(files_below(temp_.path(), Hidden::kList), (List{".b", ".c/d", "__e/f", "__g", "a"}));
}

TEST_F(FolderFiles, AFolderThatIsNotThereIsNamed) {
  EXPECT_NE(test::message_of([&] {
              (void)files_below(temp_ / "no");
            }).find("no: listing the folder failed"),
            std::string::npos);
}

TEST_F(FolderFiles, OfWhatCannotBeReachedTheReasonIsSaid) {
  fs::create_symlink("nowhere", temp_ / "dead");
  fs::create_symlink("self", temp_ / "self");
  EXPECT_EQ(unreachable(temp_ / "no/a"), temp_ / "no/a" + ": no such file or folder");
  for (const char* name : {"dead", "self"}) {
    EXPECT_EQ(unreachable(temp_ / name), cat(temp_ / name, ": ", kLinkToNothing));
    EXPECT_EQ(unreachable(temp_ / name + "/a"), cat(temp_ / name, ": ", kLinkToNothing));
  }
  if (::geteuid() == 0) GTEST_SKIP() << "root may enter every folder";
  file("shut/a");
  fs::permissions(temp_ / "shut", fs::perms::none);
  const std::string said = unreachable(temp_ / "shut/a");
  fs::permissions(temp_ / "shut", fs::perms::owner_all);
  EXPECT_EQ(said, temp_ / "shut/a" + ": Permission denied; check the permissions of its folders");
}

}  // namespace
}  // namespace glmtune::io
