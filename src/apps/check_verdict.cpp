// Whether a recipe that is right runs on this machine.
#include <filesystem>

#include "apps/check_report.h"
#include "apps/hub.h"
#include "base/cat.h"
#include "base/error.h"
#include "cuda/device.h"
#include "io/files.h"
#include "io/host_memory.h"
#include "models/hf_checkpoint.h"
#include "train/run_inputs.h"
#include "train/trainer.h"

namespace glmtune::apps {
namespace {

namespace fs = std::filesystem;

// What plans for several ranks are held against where this machine has no GPU.
constexpr std::uint64_t kH200Bytes = 150'110'011'392;  // 139.8 GiB, as its driver reports them

// What a run does about an id that is not in the cache.
std::string fetched_first(const std::string& path_or_id) {
  std::error_code error;
  const bool id = !fs::exists(path_or_id, error) && !is_path(path_or_id);
  const io::HubCache hub = local_hub_cache();
  return id && !hub.offline ? cat("; a run fetches it from ", hub.endpoint, " first") : "";
}

// Why a run does not find what it reads of the model; empty when it does.
std::string missing_model(const train::Recipe& recipe) {
  const train::ModelSettings& model = recipe.model;
  try {
    const std::string found =
        local_model(model.pretrained_model_name_or_path, model.revision, wanted_of_model(recipe));
    if (model.from_config) return "";
    models::HfCheckpoint checkpoint = models::HfCheckpoint::open(found);
    checkpoint.keep_companions();
    return model.torch_dtype ? "" : train::arithmetic_conflict(recipe, checkpoint.own_dtype());
  } catch (const MachineError&) {
    throw;
  } catch (const Error& e) {
    return cat(e.what(), fetched_first(model.pretrained_model_name_or_path));
  }
}

class Judge {
 public:
  explicit Judge(CheckReport& report) : report_(report), recipe_(report.file.recipe) {}

  void run() {
    if (const std::string line = train::not_runnable_line(report_.file.checked); !line.empty())
      reason(line + train::runs_with(report_.file.checked));
    const std::int64_t asked = report_.world_asked.value_or(1);
    if (asked > 1) reason(cat(asked, " ranks (--world-size): this version runs one"));
    const train::RecipePlan one = train::plan_recipe(
        recipe_, report_.model ? &report_.model->config : nullptr, 1, std::nullopt);
    const bool alone = asked == 1 && one.conflicts.empty();
    if (asked == 1)
      for (const std::string& conflict : one.conflicts)
        reason(cat("on one rank, and this version runs one: ", conflict));
    memory(alone ? one : report_.plan);
    if (const std::string why = missing_model(recipe_); !why.empty())
      reason(cat(recipe_.model.place, ": ", why));
    for (const DataFacts& data : report_.data)
      if (data.found == kNotHere)
        reason(cat(data.place, ": ", data.why, fetched_first(data.source)));
    report_.unchecked.emplace_back("the values of the weights");
    if (recipe_.checkpoint.enabled)
      report_.unchecked.emplace_back("room and earlier checkpoints in checkpoint.checkpoint_dir");
    if (!report_.model && !recipe_.optimizer.overrides.empty())
      report_.unchecked.emplace_back("optimizer.param_group_overrides against the model's names");
    if (!report_.steps && recipe_.lr_scheduler && !recipe_.step_scheduler.max_steps)
      report_.unchecked.emplace_back("lr_scheduler against the number of steps");
  }

 private:
  static std::string place() {
    const std::string limit = io::host_memory().limit_file;
    return limit.empty() ? "on this machine" : cat("under the container's limit in ", limit);
  }

  void reason(const std::string& line) { report_.reasons.push_back(line); }

  // One rank of the plan against this machine, or, for several, against a GPU of theirs.
  void memory(const train::RecipePlan& plan) {
    const Device device = train::choose_device(nullptr);
    std::uint64_t available = train::available_memory(device);
    std::string whose = device == Device::kCuda
                            ? cat("free on this machine's ", cuda_device_info(0).name)
                            : cat("available ", place(), " (no GPU is used)");
    if (plan.world_size > 1) {
      available = device == Device::kCuda ? cuda_device_info(0).total_bytes : kH200Bytes;
      whose = device == Device::kCuda ? cat("on a ", cuda_device_info(0).name) : "on an H200";
    }
    const bool alone = plan.world_size == 1;
    const RankMemory found =
        rank_memory(report_, plan, alone ? std::optional(available) : std::nullopt);
    if (!found.estimate) {
      report_.unchecked.emplace_back("memory");
      return;
    }
    if (found.row_tokens == 0) report_.unchecked.emplace_back("memory of the activations");
    const train::MemoryEstimate& e = *found.estimate;
    const std::uint64_t needed = needed_bytes(found);
    if (needed <= available) return;
    std::string text =
        cat("memory: ", io::human_bytes(needed), alone ? " needed" : " needed on each rank", ", ",
            io::human_bytes(available), " ", whose,
            "; weights, gradients and optimizer state alone take ",
            io::human_bytes(e.weights + e.gradients + e.optimizer));
    if (!alone) {
      const auto ranks = ranks_that_hold(report_, available);
      text +=
          cat("; ", ranks ? cat(*ranks, " ranks") : "more ranks", ", or a smaller model, would do");
    }
    if (alone && !found.advice.empty()) text += cat("; needs less: ", found.advice);
    if (alone && found.advice.find("fits") == std::string::npos) text += other_hardware();
    reason(text);
  }

  // Where no setting makes the recipe fit this machine.
  std::string other_hardware() const {
    const auto ranks = ranks_that_hold(report_, kH200Bytes);
    const std::string each = io::human_bytes(kH200Bytes);
    if (ranks == 1)
      return cat("; none of this fits: only a smaller model does, or an H200 with ", each);
    return cat("; none of this fits: only a smaller model does, or several ranks",
               ranks ? cat(" (", *ranks, " of an H200 with ", each, ")") : "",
               ", which do not run yet");
  }

  CheckReport& report_;
  const train::Recipe& recipe_;
};

}  // namespace

void judge(CheckReport& report) {
  Judge(report).run();
}

}  // namespace glmtune::apps
