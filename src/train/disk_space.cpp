#include "train/disk_space.h"

#include <algorithm>

#include "base/cat.h"
#include "base/error.h"
#include "io/files.h"

namespace glmtune::train {
namespace {

// Schedules are counted through up to here; a run with more saves than that needs more room than
// this many take, whatever the count.
constexpr std::int64_t kMostSteps = 1'000'000;

}  // namespace

DiskNeed disk_need(const CheckpointSettings& settings, const StepScheduler& schedule,
                   std::int64_t first, const CheckpointSizes& sizes, std::int64_t own,
                   bool keeps_lowest) {
  DiskNeed need;
  if (!settings.enabled) return need;
  const bool every = settings.save_consolidated == SaveConsolidated::kEvery;
  const bool final = every || settings.save_consolidated == SaveConsolidated::kFinal;
  const std::int64_t end = schedule.total_steps();
  std::int64_t saves = 0;
  bool has_last = false;
  for (std::int64_t step = first; step < std::min(end, first + kMostSteps); ++step) {
    if (!schedule.saves_checkpoint(step)) continue;
    has_last = schedule.is_last(step);
    if (++saves == 1)
      need.smallest = sizes.state + (every || (final && has_last) ? sizes.model : 0);
  }
  if (end == 0) {  // load and save
    saves = 1;
    has_last = true;
    need.smallest = sizes.state + (final ? sizes.model : 0);
  }
  need.checkpoints = own + saves;
  if (settings.max_recent_checkpoints)
    need.checkpoints =
        std::min(need.checkpoints,
                 std::max(own, *settings.max_recent_checkpoints + (keeps_lowest ? 1 : 0)) + 1);
  need.all = static_cast<std::uint64_t>(need.checkpoints - own) *
             (sizes.state + (every ? sizes.model : 0));
  if (has_last && final && !every) need.all += sizes.model;
  return need;
}

std::string check_disk_space(const std::string& folder, const DiskNeed& need, std::uint64_t free) {
  if (need.smallest > free)
    fail_machine(cat("checkpoint.checkpoint_dir: ", folder, ": the first checkpoint takes ",
                     io::human_bytes(need.smallest), ", ", io::human_bytes(free),
                     " are free there; free space, name a folder on a larger disk, or set ",
                     "checkpoint.enabled: false"));
  if (need.all <= free) return "";
  return cat("checkpoint.checkpoint_dir: ", folder, ": ", need.checkpoints,
             " checkpoints will lie there at one time; those to come take ",
             io::human_bytes(need.all), ", ", io::human_bytes(free),
             " are free; the run ends at the save that has no room. Set ",
             "checkpoint.max_recent_checkpoints lower, step_scheduler.ckpt_every_steps higher, or ",
             "free space");
}

}  // namespace glmtune::train
