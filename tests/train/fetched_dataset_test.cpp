// A data set of the hub with several subsets, fetched, then chosen from by its card.
#include <gtest/gtest.h>

#include <filesystem>

#include "io/fake_hub.h"
#include "io/hub_download.h"
#include "train/dataset_card.h"

namespace glmtune::train {
namespace {

namespace fs = std::filesystem;

class FetchedDataset : public ::testing::Test {
 protected:
  FetchedDataset() {
    hub_.id = "openai/gsm8k";
    hub_.prefix = "datasets/";
    for (const char* subset : {"main", "socratic"})
      for (const char* split : {"train", "test"})
        hub_.files[cat(subset, "/", split, "-00000-of-00001.parquet")] = {cat(subset, split), true};
    hub_.files["README.md"] = {
        "---\nconfigs:\n- config_name: main\n  data_files:\n  - split: train\n"
        "    path: main/train-*\n- config_name: socratic\n  data_files:\n  - split: train\n"
        "    path: socratic/train-*\n---\n# Maths\n"};
  }
  std::vector<std::string> files(const std::string& name) {
    const std::string folder =
        io::fetch_repo(hub_.id, io::RepoKind::kDataset, hub_.cache(), io::FakeHub::options())
            .folder;
    std::vector<std::string> out;
    for (const std::string& file : subset_files(folder, name, "train"))
      out.push_back(fs::path(file).lexically_relative(folder).generic_string());
    return out;
  }

  io::FakeHub hub_;
};

TEST_F(FetchedDataset, SubsetsAreNotMixed) {
  try {
    files("");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("set dataset.name; there are: main, socratic"),
              std::string::npos)
        << e.what();
  }
}

TEST_F(FetchedDataset, TheNameChoosesOne) {
  EXPECT_EQ(files("socratic"), std::vector<std::string>{"socratic/train-00000-of-00001.parquet"});
}

}  // namespace
}  // namespace glmtune::train
