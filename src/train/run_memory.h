#pragma once
// A run's memory: what its data's rows need at most, said before anything is allocated and given
// out before the first step.
#include <cstdint>

#include "train/engine.h"
#include "train/memory_estimate.h"
#include "train/optimizer.h"
#include "train/recipe.h"
#include "train/run_inputs.h"

namespace glmtune::train {

// How large the rows of every data set get; local_batch_size: packs of a training micro-batch.
// Error for a row that no memory holds.
RunRows run_rows(const Recipe& recipe, const RunData& data, std::int64_t local_batch_size);

struct PlannedMemory {
  std::uint64_t planned = 0, free = 0;  // bytes, before the run
};
// Where the run does not fit: MachineError on a GPU, a warning on the CPU, each with the recipe
// keys that lower it.
PlannedMemory check_memory(const Recipe& recipe, const RunModel& model, const RunData& data,
                           Device device);

// "GPU memory: 3.22 GB in use, 3.15 GB planned, 139 GB were free": what a step has shown. Where
// other programs have given memory back meanwhile, less seems to be in use, never less than none.
std::string device_memory_line(const PlannedMemory& planned, std::uint64_t free_now);

// Gives the engine's arenas what the rows and the optimizer take at most; a row that needs more
// grows them by itself.
void reserve_memory(Engine& engine, Optimizer& optimizer, const Recipe& recipe, const RunData& data,
                    Device device);

}  // namespace glmtune::train
