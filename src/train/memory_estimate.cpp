#include "train/memory_estimate.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/cat.h"
#include "cuda/device.h"
#include "io/files.h"
#include "io/host_memory.h"
#include "models/glm_moe_dsa.h"
#include "train/lora_size.h"
#include "train/optimizer.h"
#include "train/pass_options.h"

namespace glmtune::train {
namespace {

// Bytes of one parameter with its gradient and optimizer state.
struct StateBytes {
  std::uint64_t weights = 0, gradients = 0, optimizer = 0;
};

StateBytes state_bytes(std::int64_t count, DType t, bool trained,
                       const OptimizerSettings& optimizer) {
  const auto n = static_cast<std::uint64_t>(count);
  StateBytes s{.weights = n * size_of(t)};
  if (!trained) return s;
  s.gradients = n * size_of(wide(t));
  const bool low = t == DType::kBF16 && optimizer.master_weights == MasterWeights::kBf16;
  s.optimizer = n * (size_of(low ? optimizer.exp_avg_dtype : wide(t)) +
                     size_of(low ? optimizer.exp_avg_sq_dtype : wide(t)));
  if (t == DType::kBF16 && !low) s.optimizer += n * size_of(DType::kU16);
  return s;
}

}  // namespace

MemoryPlan plan_rows(Engine& engine, const Recipe& recipe, const RunRows& rows) {
  MemoryPlan plan;
  const auto cover = [&](const RowSize& size, const models::PassOptions& options) {
    for (const SampleRow& row : largest_rows(size, engine.model().attention())) {
      const MemoryPlan one = engine.plan(row.input(), options);
      plan.saved = std::max(plan.saved, one.saved);
      plan.scratch = std::max(plan.scratch, one.scratch);
    }
  };
  cover(rows.training, training_pass(recipe));
  for (const RowSize& size : rows.validation) cover(size, {});
  return plan;
}

MemoryEstimate estimate_memory(const models::GlmConfig& config, const Recipe& recipe, DType dtype,
                               const RunRows& rows, const RankShares& shares, Device target) {
  auto model = models::make_model(config, dtype, recipe.model.latent_norm_eps);
  set_backend(recipe, *model);
  Engine engine(std::move(model), {.device = Device::kMeta, .gradients = true, .target = target});
  MemoryEstimate e;
  std::optional<LoraSize> lora;
  if (recipe.peft) lora.emplace(*recipe.peft, config.num_experts_per_tok);
  engine.model().visit_parameters([&](nn::Parameter& p) {
    const bool expert = p.name.find(".mlp.experts.") != std::string::npos;
    const auto ranks = static_cast<std::uint64_t>(
        shares.pipeline_stages * (expert ? shares.expert_ranks : shares.dense_ranks));
    const auto add = [&](std::int64_t count, DType t, bool trained) {
      const StateBytes s = state_bytes(count, t, trained, recipe.optimizer);
      if (trained) e.trained += count;
      e.weights += s.weights / ranks;
      e.gradients += s.gradients / ranks;
      e.optimizer += s.optimizer / ranks;
    };
    e.parameters += p.value.count();
    add(p.value.count(), p.value.dtype, p.trainable && !lora);
    if (lora) add(lora->parameters_on(p), recipe.peft->dtype.value_or(p.value.dtype), true);
  });
  if (lora) e.unmatched_targets = lora->unmatched();
  const MemoryPlan plan = plan_rows(engine, recipe, rows);
  e.saved = plan.saved / static_cast<std::uint64_t>(shares.pipeline_stages);
  e.scratch = plan.scratch;
  if (target == Device::kCuda) e.libraries = kBlasWorkspaceBytes;
  return e;
}

std::string memory_advice(const models::GlmConfig& config, const Recipe& recipe, DType dtype,
                          const std::function<RunRows(std::int64_t)>& rows_of, Device target,
                          std::uint64_t available) {
  struct Change {
    const char* key;
    bool helps;
    void (*make)(Recipe&);
  };
  const Change changes[] = {
      {"distributed.activation_checkpointing: selective",
       recipe.distributed.activation_checkpointing == ActivationCheckpointing::kOff,
       [](Recipe& r) {
         r.distributed.activation_checkpointing = ActivationCheckpointing::kSelective;
       }},
      {"distributed.activation_checkpointing: true",
       recipe.distributed.activation_checkpointing != ActivationCheckpointing::kFull,
       [](Recipe& r) { r.distributed.activation_checkpointing = ActivationCheckpointing::kFull; }},
      {"step_scheduler.local_batch_size: 1", recipe.step_scheduler.local_batch_size > 1,
       [](Recipe& r) { r.step_scheduler.local_batch_size = 1; }},
      {"optimizer.master_weights: bf16_stochastic",
       dtype == DType::kBF16 && recipe.optimizer.master_weights == MasterWeights::kFp32,
       [](Recipe& r) {
         r.optimizer.master_weights = MasterWeights::kBf16;
         r.optimizer.exp_avg_dtype = r.optimizer.exp_avg_sq_dtype = DType::kBF16;
       }}};
  const auto total = [&](const Recipe& changed) {
    const std::uint64_t bytes =
        estimate_memory(config, changed, dtype, rows_of(changed.step_scheduler.local_batch_size),
                        {}, target)
            .total();
    return cat(" (", io::human_bytes(bytes), bytes <= available ? ", fits" : "", ")");
  };
  std::string text;
  int count = 0;
  Recipe all = recipe;
  for (const Change& change : changes) {
    if (!change.helps) continue;
    Recipe one = recipe;
    change.make(one);
    change.make(all);
    text += cat(count++ > 0 ? ", " : "", change.key, total(one));
  }
  if (count > 1) text += cat(", all of these", total(all));
  return text;
}

std::uint64_t available_memory(Device device) {
  if (device == Device::kCuda) return cuda_device_info(0).free_bytes;
  return io::host_memory().available;
}

}  // namespace glmtune::train
