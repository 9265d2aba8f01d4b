#include "train/recipe_plan.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "models/known_configs.h"
#include "train/recipe_support.h"

namespace glmtune::train {
namespace {

models::GlmConfig glm52() {
  return models::parse_glm_config(*models::known_config("zai-org/GLM-5.2"), "GLM-5.2");
}

Recipe with(const std::vector<std::string>& arguments) {
  std::vector<std::string> all{"--distributed.pipeline={}"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return small(all).recipe;
}

std::string conflicts(const std::vector<std::string>& arguments, std::int64_t world) {
  const models::GlmConfig model = glm52();
  std::string out;
  for (const std::string& line : plan_recipe(with(arguments), &model, world, {}).conflicts)
    out += line + "\n";
  return out;
}

TEST(RecipePlan, StagesAreRoundedAsAutoModelRoundsThem) {
  PipelineSettings pipeline;
  pipeline.layers_per_stage = 2;
  EXPECT_EQ(stage_layers(78, 4, pipeline).size(), 39u);
  pipeline.round_virtual_stages = "down";
  const auto down = stage_layers(78, 4, pipeline);
  ASSERT_EQ(down.size(), 36u);
  EXPECT_EQ(down[5], 3);
  EXPECT_EQ(down[6], 2);
  pipeline.round_virtual_stages = "up";
  const auto up = stage_layers(78, 4, pipeline);
  ASSERT_EQ(up.size(), 40u);
  EXPECT_EQ(up[37], 2);
  EXPECT_EQ(up[38], 1);
}

TEST(RecipePlan, SizesBeyondReasonAreConflictsAndNoArithmetic) {
  EXPECT_NE(conflicts({"--distributed.pp_size=9000000000000000000"}, 8).find("at most 1048576"),
            std::string::npos);
  EXPECT_NE(conflicts({}, std::int64_t{1} << 62).find("at most 1048576"), std::string::npos);
  const std::string most = std::to_string(std::int64_t{1} << 62);
  EXPECT_NE(conflicts({"--step_scheduler.global_batch_size=" + most,
                       "--step_scheduler.local_batch_size=" + most},
                      4)
                .find("global_batch_size"),
            std::string::npos);
}

TEST(RecipePlan, DerivesTheTopologiesOfTheRecipes) {
  const char* shared = std::getenv("GLMTUNE_SHARED");
  if (shared == nullptr) GTEST_SKIP() << "GLMTUNE_SHARED is not set";
  const struct {
    const char* name;
    std::int64_t nodes, dp, ep_shard, accumulation;
  } cases[] = {{"glm_5_hellaswag_pp", 32, 64, 1, 2},
               {"glm_5.1_lora", 16, 32, 1, 2},
               {"glm_5.2_lora", 16, 128, 1, 1},
               {"glm_5.2_tulu3_32k_tilelang_cp8", 64, 16, 2, 1},
               {"glm_5.3_tulu3_4k_cudnn_100step", 32, 64, 1, 1},
               {"glm5_lora", 16, 32, 1, 4},
               {"glm_5_te_deepep", 128, 256, 4, 1}};
  const models::GlmConfig model = glm52();
  for (const auto& c : cases) {
    const RecipeFile file = read_recipe(std::string(shared) + "/recipes/" + c.name + ".yaml", {},
                                        [](const std::string&) { return std::nullopt; });
    const RecipePlan plan = plan_recipe(file.recipe, &model, {}, c.nodes);
    EXPECT_EQ(plan.dp, c.dp) << c.name;
    EXPECT_EQ(plan.ep_shard, c.ep_shard) << c.name;
    EXPECT_EQ(plan.accumulation, c.accumulation) << c.name;
    EXPECT_TRUE(plan.conflicts.empty()) << c.name << ": " << plan.conflicts[0];
  }
}

TEST(RecipePlan, ThePagesSettingsFailTheBatchCheckOn256) {
  EXPECT_EQ(conflicts({"--distributed.ep_size=64", "--step_scheduler.global_batch_size=256",
                       "--step_scheduler.local_batch_size=4"},
                      256),
            "step_scheduler.global_batch_size 256 is no multiple of local_batch_size 4 x "
            "data-parallel size 256 = 1024; nearest: global_batch_size 1024; or "
            "step_scheduler.local_batch_size 1; or distributed.pp_size 4\n");
}

TEST(RecipePlan, EveryConflictIsNamedWithTheNearestLegalValues) {
  EXPECT_TRUE(contains(conflicts({"--distributed.pp_size=3"}, 8), "nearest: 6 or 9"));
  EXPECT_TRUE(contains(conflicts({"--distributed.ep_size=3"}, 9),
                       "ep_size 3 does not divide the 256 experts; nearest: 2 or 4"));
  EXPECT_TRUE(
      contains(conflicts({"--distributed.ep_size=16"}, 8),
               "does not divide the 8 ranks of a pipeline stage; nearest: 8; or a world of 16"));
  EXPECT_TRUE(contains(conflicts({"--distributed.cp_size=2", "--model.backend.attn=sdpa"}, 2),
                       "attn sdpa is dense"));
  EXPECT_TRUE(contains(conflicts({"--distributed.cp_size=2"}, 2), "needs packed sequences"));
  EXPECT_TRUE(contains(
      conflicts({"--distributed.cp_size=8", "--packed_sequence.packed_sequence_size=100"}, 8),
      "nearest: 96 or 104"));
  EXPECT_TRUE(contains(conflicts({"--distributed.pp_size=4"}, 4), "set local_batch_size 4"));
  EXPECT_TRUE(contains(conflicts({"--distributed.dp_size=4"}, 8), "run on 4 ranks"));
  EXPECT_TRUE(contains(conflicts({"--distributed.dp_replicate_size=3"}, 8), "nearest: 2 or 4"));
}

TEST(RecipePlan, OneRankHasNoConflicts) {
  EXPECT_EQ(conflicts({}, 1), "");
}

TEST(RecipePlan, NotesStagesThatShareSelectedKeys) {
  const models::GlmConfig model = glm52();
  const RecipePlan plan =
      plan_recipe(with({"--distributed.pp_size=4", "--distributed.pipeline.layers_per_stage=2",
                        "--step_scheduler.local_batch_size=4"}),
                  &model, 4, {});
  ASSERT_EQ(plan.notes.size(), 1u);
  // Of 39 stages those at 0, 2, 6, 10, ..., 74 own their indexer.
  EXPECT_TRUE(contains(plan.notes[0], "19 of 39 pipeline stages begin with a layer that shares"));
  EXPECT_TRUE(contains(plan.notes[0],
                       "stage 2 at layer 4 (nearest cuts without that: 2 or 6); stage 4 at layer 8 "
                       "(nearest cuts without that: 6 or 10)"))
      << plan.notes[0];
}

TEST(RecipePlan, NotesSamplesBeyondTheModelsPositions) {
  const models::GlmConfig model = glm52();
  const auto notes = [&](const std::vector<std::string>& arguments) {
    const auto plan = plan_recipe(with(arguments), &model, 1, {});
    return plan.notes.empty() ? "" : plan.notes[0];
  };
  const std::string size = std::to_string(model.max_position_embeddings + 1);
  EXPECT_TRUE(contains(notes({"--packed_sequence.packed_sequence_size=" + size}),
                       "dataset: samples may have up to " + size));
  EXPECT_EQ(notes({"--packed_sequence.packed_sequence_size=" + size, "--dataset.seq_length=4096",
                   "--dataset.truncation=true"}),
            "");
  EXPECT_EQ(notes({"--packed_sequence.packed_sequence_size=4096"}), "");
}

}  // namespace
}  // namespace glmtune::train
