#pragma once
// How the process was started: alone or as one rank of several.
#include <cstdint>
#include <optional>
#include <string>

#include "io/hub_cache.h"

namespace glmtune::apps {

// One environment variable; none when unset.
std::optional<std::string> environment(const std::string& name);
using Variables = std::optional<std::string> (*)(const std::string& name);

struct Launch {
  std::int64_t world_size = 1;
  std::string launcher;  // "mpirun (OpenMPI)", "mpirun (MPICH)", "srun"; empty: none
};

// Throws Error when started by torchrun without an MPI launcher.
Launch detect_launch(const Variables& variables);

// This version runs one rank: throws Error for more, naming the flag or the launcher.
void require_one_rank(const Launch& launch, std::optional<std::int64_t> nproc_per_node);

// What to say where more GPUs are visible than the one that a run uses; empty where there is
// nothing to say.
std::string idle_gpus_warning(int visible);

}  // namespace glmtune::apps
