// The dry run of `glmtune check`.
#include <algorithm>

#include "apps/check_report.h"
#include "train/trainer.h"

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

// The same, or the longest of the rows that were read.
std::int64_t row_length(const CheckReport& report, const train::DatasetEntry& entry) {
  if (const std::int64_t tokens = sample_tokens(entry); tokens > 0) return tokens;
  for (const ReadRows& read : report.rows)
    if (read.key == entry.key) return read.summary.longest;
  return 0;
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

RankMemory rank_memory(const CheckReport& report, const train::RecipePlan& plan,
                       std::optional<std::uint64_t> available) {
  RankMemory out;
  if (!report.model || !plan.conflicts.empty()) return out;
  const train::Recipe& recipe = report.file.recipe;
  const models::GlmConfig& config = report.model->config;
  const DType dtype = weight_type(recipe, config);
  if (dtype == DType::kF16) return out;  // does not run
  const bool pipeline = plan.pp > 1 && recipe.distributed.pipeline;
  const std::int64_t samples = pipeline ? recipe.distributed.pipeline->microbatch_size
                                        : recipe.step_scheduler.local_batch_size;
  const std::int64_t tokens = row_length(report, recipe.dataset);
  // Such a size is a bound that no row reaches, and no memory can be planned for it.
  out.row_tokens = tokens > kLongestRow / samples ? 0 : tokens * samples;
  const train::RankShares shares{.expert_ranks = plan.ep * plan.ep_shard,
                                 .dense_ranks = plan.dp / plan.dp_replicate * plan.cp,
                                 .pipeline_stages = plan.pp};
  const Device target = plan.world_size > 1 ? Device::kCuda : train::choose_device(nullptr);
  const auto rows_of = [&](std::int64_t packs) {
    train::RunRows rows(out.row_tokens == 0 ? train::SampleRow(1, 1)
                                            : sample_row(packs, tokens / plan.cp));
    for (const train::DatasetEntry& entry : recipe.validation_datasets) {
      const std::int64_t batch = recipe.validation_dataloader.batch_size.value_or(packs);
      const std::int64_t length = row_length(report, entry);
      if (length > 0 && length <= kLongestRow / batch)
        rows.validation.push_back(sample_row(batch, length / plan.cp));
    }
    return rows;
  };
  out.estimate = train::estimate_memory(config, recipe, dtype, rows_of(samples), shares, target);
  if (available && out.estimate->total() > *available)
    out.advice = train::memory_advice(config, recipe, dtype, rows_of, target, *available);
  return out;
}

}  // namespace glmtune::apps
