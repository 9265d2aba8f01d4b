// The main job on small models: the reference trajectory, resume, export, and what goes wrong.
#include "train/trainer.h"

#include <cmath>

#include "base/exit_code.h"
#include "io/safetensors.h"
#include "train/checkpoint_folder.h"
#include "train/trainer_support.h"

namespace glmtune::train {
namespace {

TEST_F(Trainer, TenAdamwStepsFollowTheReference) {
  ASSERT_EQ(train(golden_recipe("out")), 0);
  const io::Value facts = io::read_json_file(kGolden + "/golden.json");
  const io::Value& reference = *facts.find("train");
  const std::vector<io::Value> lines = log("out");
  ASSERT_EQ(lines.size(), 10U);
  double worst_loss = 0, worst_norm = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const double loss = reference.find("losses")->as_array()[i].as_double();
    const double norm = reference.find("grad_norms")->as_array()[i].as_double();
    worst_loss = std::max(worst_loss, std::abs(lines[i].find("loss")->as_double() / loss - 1));
    worst_norm = std::max(worst_norm, std::abs(lines[i].find("grad_norm")->as_double() / norm - 1));
  }
  EXPECT_LE(worst_loss, 1e-5);
  EXPECT_LE(worst_norm, 5e-5);
  RecordProperty("worst_loss", cat(worst_loss));
  RecordProperty("worst_norm", cat(worst_norm));
}

TEST_F(Trainer, ActivationCheckpointingChangesNoBit) {
  ASSERT_EQ(train(golden_recipe("plain")), 0);
  for (const char* how : {"true", "selective"}) {
    ASSERT_EQ(
        train(golden_recipe(how, cat("distributed: {activation_checkpointing: ", how, "}\n"))), 0);
    EXPECT_TRUE(bytes(path("plain/LATEST/state.safetensors")) ==
                bytes(path(std::string(how) + "/LATEST/state.safetensors")));
  }
}

// recipes.md section 5, 15; user_reports 79: the rates after a resume are those of the
// uninterrupted run, too.
TEST_F(Trainer, ResumeInTheMiddleOfAnEpochGivesTheSameBits) {
  for (const char* dtype : {"float32", "bfloat16"}) {
    const std::string whole = cat("whole_", dtype), parts = cat("parts_", dtype);
    ASSERT_EQ(train(mock_recipe(whole, 8, 100, "", dtype)), 0);
    // Stops by a signal after the first checkpoint step's successor, then goes on.
    std::atomic<int> stop{15};
    for (int i = 0; i < 2; ++i)
      ASSERT_EQ(train(mock_recipe(parts, 8, 100, "", dtype), &stop),
                exit_status(ExitCode::kPreempted));
    ASSERT_EQ(train(mock_recipe(parts, 8, 100, "", dtype)), 0);
    EXPECT_TRUE(bytes(path(whole + "/LATEST/state.safetensors")) ==
                bytes(path(parts + "/LATEST/state.safetensors")));
    const auto a = log(whole), b = log(parts);
    ASSERT_EQ(a.size(), 8U);
    ASSERT_EQ(b.size(), 8U);
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(*a[i].find("loss"), *b[i].find("loss")) << i;
      EXPECT_EQ(*a[i].find("grad_norm"), *b[i].find("grad_norm")) << i;
      EXPECT_EQ(*a[i].find("lr"), *b[i].find("lr")) << i;
    }
  }
}

// recipes.md section 5, 15.
TEST_F(Trainer, ZeroStepsLoadAndSaveTheSameTensorBytes) {
  const std::string recipe = golden_recipe("out");
  std::string zero = recipe;
  zero.replace(zero.find("max_steps: 10"), 13, "max_steps: 0");
  ASSERT_EQ(train(zero), 0);
  const std::string saved = path("out/epoch_0_step_0/model/consolidated");
  const auto before = io::SafetensorsFile::open(kGolden + "/model.safetensors");
  const auto after = io::SafetensorsFile::open(saved + "/model.safetensors");
  ASSERT_EQ(before.tensors().size(), after.tensors().size());
  for (const io::TensorInfo& t : before.tensors())
    EXPECT_FALSE(differs(before, after, t.name)) << t.name;
}

TEST_F(Trainer, TrainedExportDiffersOnlyWhereTrained) {
  ASSERT_EQ(train(golden_recipe("out")), 0);
  const auto before = io::SafetensorsFile::open(kGolden + "/model.safetensors");
  const auto after =
      io::SafetensorsFile::open(path("out/LATEST/model/consolidated/model.safetensors"));
  for (const io::TensorInfo& t : before.tensors()) {
    const bool frozen = t.name.find(".indexer.") != std::string::npos ||
                        t.name.ends_with("e_score_correction_bias");
    EXPECT_EQ(differs(before, after, t.name), !frozen) << t.name;
  }
}

TEST_F(Trainer, PublishedCheckpointIsNeverOverwritten) {
  ASSERT_EQ(train(golden_recipe("out")), 0);
  const std::string state = bytes(path("out/LATEST/state.safetensors"));
  // The same command again: resumes at the end and has nothing left to do.
  ASSERT_EQ(train(golden_recipe("out")), 0);
  EXPECT_EQ(bytes(path("out/LATEST/state.safetensors")), state);
}

TEST_F(Trainer, OccupiedStepFolderIsNamedBeforeTraining) {
  ASSERT_EQ(train(mock_recipe("out", 3, 2)), 0);
  // From step 1 on, the run would save step 2 once more.
  std::string recipe = mock_recipe("out", 3, 2);
  recipe.replace(recipe.find("{enabled: true,"), 15,
                 "{enabled: true, restore_from: epoch_0_step_1,");
  try {
    train(recipe);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("epoch_1_step_2"), std::string::npos) << e.what();
  }
  EXPECT_EQ(log("out").size(), 3U);
}

TEST_F(Trainer, CheckpointOfAnotherDtypeIsRefusedByItsKey) {
  ASSERT_EQ(train(mock_recipe("out", 3, 2)), 0);
  try {
    train(mock_recipe("out", 3, 2, "", "bfloat16"));
    FAIL();
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("model.torch_dtype is float32 there and bfloat16 here"), std::string::npos)
        << text;
  }
  EXPECT_EQ(log("out").size(), 3U);
}

TEST_F(Trainer, CheckpointResumedUnderAnotherSeedBelongsToThatSeed) {
  ASSERT_EQ(train(mock_recipe("first", 4, 2)), 0);
  const auto go_on = [&](int steps, const std::string& from) {
    std::string recipe = mock_recipe("second", steps, 2);
    recipe.replace(recipe.find("seed: 5"), 7, "seed: 6");
    if (!from.empty())
      recipe.replace(recipe.find("{enabled: true,"), 15,
                     cat("{enabled: true, restore_from: ", path(from), ","));
    return train(recipe);
  };
  ASSERT_EQ(go_on(4, "first/epoch_0_step_1"), 0);
  ASSERT_EQ(go_on(6, ""), 0);  // goes on from its own LATEST
  const std::vector<io::Value> lines = log("second");
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines.back().find("step")->as_int(), 5);
}

TEST_F(Trainer, DamagedCheckpointIsLeftOutForTheOneBefore) {
  ASSERT_EQ(train(mock_recipe("out", 4, 2)), 0);
  const std::string newest = path("out/epoch_1_step_3/state.safetensors");
  ASSERT_TRUE(fs::exists(newest));
  fs::resize_file(newest, fs::file_size(newest) - 1);
  const CheckpointFolder folder(path("out"));
  std::string note;
  const auto found = folder.resolve("", &note);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->step, 1);
  EXPECT_NE(note.find("state.safetensors has"), std::string::npos) << note;
  EXPECT_THROW((void)folder.resolve("epoch_1_step_3", &note), Error);
}

TEST_F(Trainer, NewestCheckpointIsResumedWhereLatestStayedBehind) {
  ASSERT_EQ(train(mock_recipe("out", 4, 2)), 0);
  fs::remove(path("out/LATEST"));
  fs::create_directory_symlink("epoch_0_step_1", path("out/LATEST"));
  std::string note;
  EXPECT_EQ(CheckpointFolder(path("out")).resolve("", &note)->step, 3);
}

// user_reports 66: GLM-5 and 5.1 have the same shapes.
TEST_F(Trainer, CheckpointOfAnotherBaseModelIsNotResumed) {
  ASSERT_EQ(train(mock_recipe("out", 3, 100)), 0);
  fs::copy(kGolden, path("other"));
  fs::permissions(path("other/model.safetensors"), fs::perms::owner_write, fs::perm_options::add);
  const auto file = io::SafetensorsFile::open(path("other/model.safetensors"));
  const io::TensorInfo& t = file.at("model.layers.0.self_attn.indexer.wk.weight");
  std::fstream out(path("other/model.safetensors"),
                   std::ios::in | std::ios::out | std::ios::binary);
  out.seekp(static_cast<std::streamoff>(t.offset));
  out.write("\0\0\0\0", 4);
  out.close();
  std::string recipe = mock_recipe("out", 3, 100);
  recipe.replace(recipe.find(kGolden), kGolden.size(), path("other"));
  EXPECT_THROW(train(recipe), Error);
}

TEST_F(Trainer, ALocalBatchBeyondTheDataTakesNoMoreMemoryThanTheData) {
  std::string recipe = mock_recipe("out", 4, 4);
  recipe.replace(recipe.find("global_batch_size: 4, local_batch_size: 2"), 41,
                 "global_batch_size: 4000000000, local_batch_size: 4000000000");
  EXPECT_EQ(train(recipe), 0);
}

TEST_F(Trainer, NonfiniteLossStopsTheRunWithoutASave) {
  std::string recipe = golden_recipe("out");
  recipe.replace(recipe.find("lr: 1e-3"), 8, "lr: 1e30");
  EXPECT_EQ(train(recipe), exit_status(ExitCode::kNonFinite));
  EXPECT_FALSE(fs::exists(path("out/LATEST")));
}

TEST_F(Trainer, RetentionKeepsTheNewestCheckpoints) {
  std::string recipe = mock_recipe("out", 6, 1);
  recipe.replace(recipe.find("{enabled: true,"), 15, "{enabled: true, max_recent_checkpoints: 2,");
  ASSERT_EQ(train(recipe), 0);
  std::size_t folders = 0;
  for (const auto& e : fs::directory_iterator(path("out")))
    folders += e.is_directory() && !e.is_symlink() ? 1 : 0;
  EXPECT_EQ(folders, 2U);
}

TEST_F(Trainer, UnwritableCheckpointFolderIsNamedBeforeTraining) {
  std::ofstream(path("file")) << "not a folder";
  try {
    train(golden_recipe("file/below"));
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(path("file/below")), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace glmtune::train
