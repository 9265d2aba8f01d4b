// The dry run of `glmtune check`.
#include <algorithm>

#include "apps/check_report.h"

namespace glmtune::apps {
namespace {

constexpr std::int64_t kLongestRow = std::int64_t{1} << 30;

// Tokens of one sample; 0 where only the data know.
std::int64_t sample_tokens(const train::DatasetEntry& entry) {
  if (entry.packing.packed_sequence_size > 0) return entry.packing.packed_sequence_size;
  return std::visit(
      [](const auto& settings) -> std::int64_t {
        if constexpr (requires { settings.seq_length; }) return settings.seq_length.value_or(0);
        if constexpr (requires { settings.seq_len; }) return settings.seq_len;
        return 0;
      },
      entry.settings);
}

train::SampleRow sample_row(std::int64_t samples, std::int64_t tokens) {
  return train::SampleRow(samples, std::max<std::int64_t>(1, tokens));
}

// What the weights are in memory: FP8 becomes bf16, F16 float32.
DType weight_type(const train::Recipe& recipe, const models::GlmConfig& config) {
  if (recipe.model.torch_dtype) return *recipe.model.torch_dtype;
  const DType dtype = config.dtype.value_or(DType::kBF16);
  return dtype == DType::kF16 ? DType::kF32 : dtype;
}

}  // namespace

void estimate(CheckReport& report) {
  if (!report.model || !report.plan.conflicts.empty()) return;
  const train::Recipe& recipe = report.file.recipe;
  if (weight_type(recipe, report.model->config) == DType::kF16) return;  // does not run
  const train::RecipePlan& plan = report.plan;
  const bool pipeline = plan.pp > 1 && recipe.distributed.pipeline;
  const std::int64_t samples = pipeline ? recipe.distributed.pipeline->microbatch_size
                                        : recipe.step_scheduler.local_batch_size;
  const std::int64_t tokens = sample_tokens(recipe.dataset);
  // Such a size is a bound that no row reaches, and no memory can be planned for it.
  report.row_tokens = tokens > kLongestRow / samples ? 0 : tokens * samples;
  const train::RankShares shares{.expert_ranks = plan.ep * plan.ep_shard,
                                 .dense_ranks = plan.dp / plan.dp_replicate * plan.cp,
                                 .pipeline_stages = plan.pp};
  const Device target = plan.world_size > 1 ? Device::kCuda : Device::kCpu;
  train::RunRows rows(report.row_tokens == 0 ? train::SampleRow(1, 1)
                                             : sample_row(samples, tokens / plan.cp));
  for (const train::DatasetEntry& entry : recipe.validation_datasets) {
    const std::int64_t batch = recipe.validation_dataloader.batch_size.value_or(samples);
    const std::int64_t length = sample_tokens(entry);
    if (length > 0 && length <= kLongestRow / batch)
      rows.validation.push_back(sample_row(batch, length / plan.cp));
  }
  report.memory =
      train::estimate_memory(report.model->config, recipe,
                             weight_type(recipe, report.model->config), rows, shares, target);
}

}  // namespace glmtune::apps
