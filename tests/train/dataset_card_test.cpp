#include "train/dataset_card.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "support/temp_folder.h"

namespace glmtune::train {
namespace {

namespace fs = std::filesystem;

class DatasetCard : public ::testing::Test {
 protected:
  void file(const std::string& name, const std::string& text = "{}\n") const {
    const fs::path path = temp_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::vector<std::string> files(const std::string& name, const std::string& split = "train") {
    std::vector<std::string> out;
    for (const std::string& path : subset_files(temp_.path(), name, split))
      out.push_back(fs::path(path).lexically_relative(temp_.path()).generic_string());
    return out;
  }
  std::string error(const std::string& name, const std::string& split = "train") {
    try {
      files(name, split);
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  }
  using List = std::vector<std::string>;
  TempFolder temp_;
};

TEST_F(DatasetCard, PatternsAreThoseOfTheHub) {
  EXPECT_TRUE(glob_matches("data/train-*", "data/train-00000-of-00002.parquet"));
  EXPECT_FALSE(glob_matches("data/train-*", "data/train-x/a.parquet"));
  EXPECT_TRUE(glob_matches("**/*.jsonl", "a/b/c.jsonl"));
  EXPECT_TRUE(glob_matches("**/*.jsonl", "c.jsonl"));
  EXPECT_TRUE(glob_matches("a/**", "a/b/c.jsonl"));
  EXPECT_TRUE(glob_matches("part-?.json", "part-1.json"));
  EXPECT_FALSE(glob_matches("part-?.json", "part-12.json"));
  EXPECT_FALSE(glob_matches("train", "train.json"));
  EXPECT_TRUE(glob_matches("**", "a/b"));
  EXPECT_TRUE(glob_matches("**a", "b/a"));
  EXPECT_TRUE(glob_matches("a/**/b", "a/b"));
  EXPECT_TRUE(glob_matches("a/**/b", "a/x/y/b"));
  EXPECT_FALSE(glob_matches("a/**/b", "a/xb"));
  EXPECT_FALSE(glob_matches("", "a"));
  EXPECT_TRUE(glob_matches("", ""));
}

TEST_F(DatasetCard, APatternOfManyStarsTakesNoTime) {
  std::string stars;
  for (int i = 0; i < 40; ++i) stars += "**a*";
  EXPECT_FALSE(glob_matches(stars + "b", std::string(200, 'a')));
  EXPECT_TRUE(glob_matches(stars, std::string(200, 'a')));
}

TEST_F(DatasetCard, TheFolderOfASubsetStaysInTheDataSet) {
  const auto card = [&](const std::string& dir) {
    file("README.md", "---\nconfigs:\n- config_name: en\n  data_dir: " + dir + "\n---\n");
  };
  for (const char* dir : {"/etc", "../other", "en/../../other"}) {
    card(dir);
    EXPECT_NE(error("en").find("leads out of the data set's folder"), std::string::npos) << dir;
  }
  for (const char* dir : {"en", "./en/"}) {
    card(dir);
    EXPECT_EQ(files("en"), (List{"en"}));
  }
  card(".");
  EXPECT_EQ(files("en").size(), 1U);
}

TEST_F(DatasetCard, PatternsBesideAFolderAreOfFilesInIt) {
  file("README.md",
       "---\nconfigs:\n- config_name: en\n  data_dir: en\n  data_files:\n  - split: train\n"
       "    path: clean-*.jsonl\n  - split: test\n    path: '*-test.jsonl'\n---\n");
  for (const char* name :
       {"en/clean-0.jsonl", "en/clean-1.jsonl", "en/raw-0.jsonl", "clean-2.jsonl", "a-test.jsonl"})
    file(name);
  EXPECT_EQ(files("en"), (List{"en/clean-0.jsonl", "en/clean-1.jsonl"}));
  EXPECT_NE(error("en", "test").find("/en matches the data_files *-test.jsonl of split test"),
            std::string::npos)
      << error("en", "test");
}

// recipes.md 1.6, ChatDataset's `name`.
TEST_F(DatasetCard, TheNameChoosesAConfigOfTheCard) {
  file("README.md",
       "---\nlicense: odc-by\nconfigs:\n- config_name: en\n  data_files:\n  - split: train\n"
       "    path: en/train-*\n  - split: test\n    path: [en/test-*, en/more.jsonl]\n"
       "- config_name: zh\n  default: true\n  data_files: zh/*.jsonl\n---\n# Chats\n");
  for (const char* name : {"en/train-1.jsonl", "en/train-0.jsonl", "en/test-0.jsonl",
                           "en/more.jsonl", "zh/a.jsonl", "other.jsonl"})
    file(name);
  EXPECT_EQ(files("en"), (List{"en/train-0.jsonl", "en/train-1.jsonl"}));
  EXPECT_EQ(files("en", "test"), (List{"en/more.jsonl", "en/test-0.jsonl"}));
  EXPECT_EQ(files(""), (List{"zh/a.jsonl"}));  // the default
  EXPECT_NE(error("fr").find("no subset fr; there are: en, zh"), std::string::npos) << error("fr");
  EXPECT_NE(error("en", "validation").find("no split validation; there are: train, test"),
            std::string::npos);
  EXPECT_NE(error("zh", "test").find("no split test; there is: train"), std::string::npos);
}

TEST_F(DatasetCard, SeveralConfigsWithoutADefaultNeedAName) {
  file("README.md",
       "---\nconfigs:\n- config_name: en\n  data_files: en.jsonl\n- config_name: zh\n"
       "  data_files: zh.jsonl\n---\n");
  file("en.jsonl");
  EXPECT_NE(error("").find("set dataset.name; there are: en, zh"), std::string::npos) << error("");
  EXPECT_EQ(files("en"), (List{"en.jsonl"}));
  EXPECT_NE(error("zh").find("matches the data_files zh.jsonl"), std::string::npos) << error("zh");
}

TEST_F(DatasetCard, WithoutACardTheNameIsAFolder) {
  file("en/a.jsonl");
  file("zh/a.jsonl");
  EXPECT_EQ(files("en"), (List{"en"}));
  EXPECT_EQ(files(""), (List{"."}));
  EXPECT_NE(error("fr").find("folders here: en, zh"), std::string::npos) << error("fr");
  file("README.md", "# no front matter\n");
  EXPECT_EQ(files(""), (List{"."}));
  file("README.md", "---\nlicense: mit\n---\n");
  EXPECT_EQ(files("zh"), (List{"zh"}));
}

TEST_F(DatasetCard, PatternsTakeOneFormatAndNothingHiddenThatTheyDoNotAskFor) {
  const auto card = [&](const std::string& pattern) {
    file("README.md",
         "---\nconfigs:\n- config_name: default\n  data_files: \"" + pattern + "\"\n---\n");
  };
  for (const char* name : {"d/a.jsonl", "d/a-0.parquet", "d/a-1.parquet", "d/._a.jsonl",
                           "d/.old/b.jsonl", "d/__x/c.jsonl"})
    file(name);
  card("d/**");
  EXPECT_EQ(files(""), (List{"d/a-0.parquet", "d/a-1.parquet"}));
  card("**/*.jsonl");
  EXPECT_EQ(files(""), (List{"d/a.jsonl"}));
  card("d/.old/*.jsonl");
  EXPECT_EQ(files(""), (List{"d/.old/b.jsonl"}));
  card("d/__*/*");
  EXPECT_EQ(files(""), (List{"d/__x/c.jsonl"}));
}

TEST_F(DatasetCard, PatternsMatchBehindLinksToFolders) {
  const TempFolder elsewhere;
  std::ofstream(elsewhere / "b.jsonl") << "{}\n";
  file("README.md", "---\nconfigs:\n- config_name: default\n  data_files: \"**/*.jsonl\"\n---\n");
  file("v1/a.jsonl");
  fs::create_directory_symlink(elsewhere.path(), temp_ / "part2");
  fs::create_directory_symlink("v1", temp_ / "v2");
  EXPECT_EQ(files(""), (List{"part2/b.jsonl", "v1/a.jsonl"}));
  fs::create_symlink("nowhere", temp_ / "c.jsonl");
  EXPECT_NE(error("").find("c.jsonl: a link that leads nowhere"), std::string::npos) << error("");
}

TEST_F(DatasetCard, AHeadThatIsNoMapIsNotCalledARecipe) {
  file("README.md", "---\n- en\n---\n");
  EXPECT_NE(error("").find("the head of a data set's card is a YAML map"), std::string::npos)
      << error("");
}

}  // namespace
}  // namespace glmtune::train
