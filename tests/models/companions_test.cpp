// What lies beside the weights of a checkpoint is saved as it was when the run began.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "models/hf_checkpoint.h"
#include "support/memory_parameters.h"
#include "support/message_of.h"
#include "support/temp_folder.h"

namespace glmtune::models {
namespace {

namespace fs = std::filesystem;

class CompanionFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::copy(std::string(GLMTUNE_FIXTURES) + "/golden/packed", folder_ / "in");
    io::write_file(folder_ / "in/tokenizer.json", "{\"a\": 1}");
    fs::create_directory(folder_ / "in/additional_chat_templates");
    io::write_file(folder_ / "in/additional_chat_templates/tool.jinja", "t");
  }
  void save(const HfCheckpoint& source) const {
    MemoryParameters parameters(source.config(), DType::kF32);
    source.load(parameters.all());
    spoil_();
    source.save(folder_ / "out", parameters.all());
  }

  TempFolder folder_;
  std::function<void()> spoil_ = [] {};
};

TEST_F(CompanionFiles, EditsDuringARunDoNotReachWhatIsSaved) {
  HfCheckpoint source = HfCheckpoint::open(folder_ / "in");
  source.keep_companions();
  const std::string config = io::read_file(folder_ / "in/config.json");
  spoil_ = [&] {
    io::write_file(folder_ / "in/config.json", "{}");
    io::write_file(folder_ / "in/tokenizer.json", "{}");
    fs::remove_all(folder_ / "in/additional_chat_templates");
  };
  save(source);
  EXPECT_EQ(io::read_file(folder_ / "out/config.json"), config);
  EXPECT_EQ(io::read_file(folder_ / "out/tokenizer.json"), "{\"a\": 1}");
  EXPECT_EQ(io::read_file(folder_ / "out/additional_chat_templates/tool.jinja"), "t");
}

TEST_F(CompanionFiles, ASourceFolderThatIsGoneIsNotNeeded) {
  HfCheckpoint source = HfCheckpoint::open(folder_ / "in");
  source.keep_companions();
  spoil_ = [&] { fs::remove_all(folder_ / "in"); };
  save(source);
  EXPECT_TRUE(fs::exists(folder_ / "out/tokenizer.json"));
}

TEST_F(CompanionFiles, AnUnreadableOneIsNamedWhenTheyAreRead) {
  fs::create_symlink("generation_config.json", folder_ / "in/generation_config.json");
  HfCheckpoint source = HfCheckpoint::open(folder_ / "in");
  const std::string message = test::message_of([&] { source.keep_companions(); });
  EXPECT_NE(message.find("in/generation_config.json: opening for reading failed"),
            std::string::npos)
      << message;
}

// A link to nothing, a folder and a hidden file are nothing to copy.
TEST_F(CompanionFiles, OnlyFilesAreTaken) {
  fs::create_symlink("nowhere", folder_ / "in/README.md");
  fs::create_directory(folder_ / "in/figures");
  io::write_file(folder_ / "in/.gitattributes", "x");
  save(HfCheckpoint::open(folder_ / "in"));
  for (const char* name : {"out/README.md", "out/figures", "out/.gitattributes"})
    EXPECT_FALSE(fs::exists(folder_ / name)) << name;
}

}  // namespace
}  // namespace glmtune::models
