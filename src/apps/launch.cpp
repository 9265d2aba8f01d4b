#include "apps/launch.h"

#include <charconv>
#include <cstdlib>

#include "base/cat.h"
#include "base/error.h"

namespace glmtune::apps {
namespace {

std::optional<std::int64_t> number(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::string> environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Launch detect_launch(const Variables& variables) {
  if (const auto size = number(variables("OMPI_COMM_WORLD_SIZE")))
    return {.world_size = *size, .launcher = "mpirun (OpenMPI)"};
  if (variables("PMI_RANK"))
    return {.world_size = number(variables("PMI_SIZE")).value_or(1), .launcher = "mpirun (MPICH)"};
  // An salloc shell has SLURM_NTASKS without being a rank.
  const bool in_a_step = variables("SLURM_STEP_ID") && variables("SLURM_PROCID");
  if (variables("PMIX_RANK") || in_a_step)
    return {.world_size = number(variables("SLURM_NTASKS")).value_or(1), .launcher = "srun"};
  if (variables("TORCHELASTIC_RUN_ID") || (variables("RANK") && variables("LOCAL_RANK")))
    fail(
        "started by torchrun (RANK, LOCAL_RANK or TORCHELASTIC_RUN_ID is set); start ranks with "
        "mpirun -np N or srun --mpi=pmix instead");
  return {};
}

void require_one_rank(const Launch& launch, std::optional<std::int64_t> nproc_per_node) {
  if (nproc_per_node && *nproc_per_node < 1)
    fail(cat("--nproc-per-node ", *nproc_per_node, ": expected 1 or more"));
  if (nproc_per_node && *nproc_per_node > 1)
    fail(cat("--nproc-per-node ", *nproc_per_node,
             ": several ranks do not run yet; leave the option out to run one"));
  if (launch.world_size > 1)
    fail(cat("started as one of ", launch.world_size, " ranks by ", launch.launcher,
             ": several ranks do not run yet; start one process without it"));
}

std::string idle_gpus_warning(int visible) {
  if (visible <= 1) return "";
  return cat(visible, " GPUs are visible and this run uses one: several ranks (--nproc-per-node ",
             visible, ") do not run yet");
}

}  // namespace glmtune::apps
