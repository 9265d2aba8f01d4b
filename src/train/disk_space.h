#pragma once
// Whether the disk has room for a run's checkpoints, said before the run instead of at a save.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "train/recipe.h"
#include "train/step_scheduler.h"

namespace glmtune::train {

struct CheckpointSizes {
  std::uint64_t state = 0;  // parameters and optimizer state, in every checkpoint
  std::uint64_t model = 0;  // the Hugging Face folder; 0: none is written
};

// What the saves from step `first` on take of a disk.
struct DiskNeed {
  std::uint64_t smallest = 0;    // the first save; without it no checkpoint exists at all
  std::uint64_t all = 0;         // most that is added to what lies there now: old ones go after a
                                 // new one is written
  std::int64_t checkpoints = 0;  // that lie there then
};
// own: the run's checkpoints that lie there already. keeps_lowest: validation may keep one of them
// (LOWEST_VAL) beside the max_recent_checkpoints newest.
DiskNeed disk_need(const CheckpointSettings& settings, const StepScheduler& schedule,
                   std::int64_t first, const CheckpointSizes& sizes, std::int64_t own,
                   bool keeps_lowest);

// MachineError where the first save has no room; else a warning where a later one will have none,
// empty where all have.
std::string check_disk_space(const std::string& folder, const DiskNeed& need, std::uint64_t free);

}  // namespace glmtune::train
