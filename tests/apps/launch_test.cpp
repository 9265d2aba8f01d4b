#include "apps/launch.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace glmtune::apps {
namespace {

std::map<std::string, std::string> g_variables;

Launch launch(std::map<std::string, std::string> variables) {
  g_variables = std::move(variables);
  return detect_launch([](const std::string& name) {
    const auto found = g_variables.find(name);
    return found == g_variables.end() ? std::nullopt : std::optional(found->second);
  });
}

// user_reports 77
TEST(Launch, IsRecognisedByItsVariables) {
  EXPECT_EQ(launch({}).world_size, 1);
  EXPECT_EQ(launch({}).launcher, "");
  EXPECT_EQ(launch({{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "0"}}).world_size, 4);
  EXPECT_EQ(launch({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}).launcher, "mpirun (MPICH)");
  EXPECT_EQ(
      launch({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "8"}}).world_size, 8);
}

TEST(Launch, AnAllocatedShellIsNoRank) {
  EXPECT_EQ(launch({{"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "1"}}).world_size, 1);
}

TEST(Launch, TorchrunIsRefusedWithTheCure) {
  try {
    launch({{"TORCHELASTIC_RUN_ID", "x"}, {"LOCAL_RANK", "0"}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("mpirun -np N or srun --mpi=pmix"), std::string::npos);
  }
  EXPECT_THROW(launch({{"RANK", "0"}, {"LOCAL_RANK", "0"}}), Error);
  EXPECT_EQ(launch({{"LOCAL_RANK", "0"}}).world_size, 1);
}

TEST(Launch, SeveralRanksAreRefused) {
  EXPECT_NO_THROW(require_one_rank({}, std::nullopt));
  EXPECT_NO_THROW(require_one_rank({}, 1));
  EXPECT_THROW(require_one_rank({}, 8), Error);
  EXPECT_THROW(require_one_rank({}, 0), Error);
  EXPECT_THROW(require_one_rank({.world_size = 2, .launcher = "srun"}, std::nullopt), Error);
}

// recipes.md 2.1: one rank runs without the flag, and a warning names it where more GPUs are
// visible.
TEST(Launch, GpusThatARunLeavesIdleAreWarnedOfWithTheFlag) {
  EXPECT_EQ(idle_gpus_warning(0), "");
  EXPECT_EQ(idle_gpus_warning(1), "");
  const std::string line = idle_gpus_warning(8);
  EXPECT_NE(line.find("8 GPUs are visible"), std::string::npos) << line;
  EXPECT_NE(line.find("--nproc-per-node 8"), std::string::npos) << line;
}

}  // namespace
}  // namespace glmtune::apps
