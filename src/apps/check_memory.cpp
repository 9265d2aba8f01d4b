// The dry run of `glmtune check`.
#include <algorithm>

#include "apps/check_report.h"
#include "models/glm_moe_dsa.h"
#include "train/optimizer.h"
#include "train/trainer.h"

namespace glmtune::apps {
namespace {

// What no sample is longer than by the recipe; 0 where only the data know.
std::int64_t longest_sample(const train::DatasetEntry& entry) {
  return std::visit(
      [](const auto& settings) -> std::int64_t {
        if constexpr (requires { settings.seq_length; })
          return settings.too_long == data::TooLong::kKeep ? 0 : settings.seq_length.value_or(0);
        if constexpr (requires { settings.seq_len; }) return settings.seq_len;
        return 0;
      },
      entry.settings);
}

// One pack of a data set; tokens 0 where only the data know. Exact where all rows were read; from a
// part of them only what the recipe leaves open is taken.
train::RowSize pack_size(const CheckReport& report, const train::DatasetEntry& entry) {
  const std::int64_t pack = entry.packing.packed_sequence_size, longest = longest_sample(entry);
  train::RowSize size{.packs = 1,
                      .tokens = pack > 0 ? pack : longest,
                      .longest_document = longest,
                      .most_documents = pack > 0 || entry.packing.prepacked ? 0 : 1};
  for (const ReadRows& read : report.rows) {
    if (read.key != entry.key || read.pack_tokens == 0) continue;
    if (read.all)
      size = {.packs = 1,
              .tokens = read.pack_tokens,
              .longest_document = read.summary.longest,
              .most_documents = read.pack_documents};
    else if (size.tokens == 0)
      size.tokens = read.pack_tokens;
  }
  return size;
}

}  // namespace

DType weight_type(const CheckReport& report) {
  if (const auto asked = report.file.recipe.model.torch_dtype) return *asked;
  const auto stored = report.model ? report.model->config.dtype : std::nullopt;
  const DType dtype = stored.value_or(DType::kBF16);
  return dtype == DType::kF16 ? DType::kF32 : dtype;
}

void check_overrides(const CheckReport& report) {
  const train::Recipe& recipe = report.file.recipe;
  if (!report.model || recipe.optimizer.overrides.empty()) return;
  const auto model =
      models::make_model(report.model->config, weight_type(report), recipe.model.latent_norm_eps);
  train::Optimizer::check_overrides(*model, recipe.optimizer);
}

RankMemory rank_memory(const CheckReport& report, const train::RecipePlan& plan,
                       std::optional<std::uint64_t> available) {
  RankMemory out;
  if (!report.model || !plan.conflicts.empty()) return out;
  const train::Recipe& recipe = report.file.recipe;
  const models::GlmConfig& config = report.model->config;
  const DType dtype = weight_type(report);
  if (dtype == DType::kF16) return out;  // does not run
  const bool pipeline = plan.pp > 1 && recipe.distributed.pipeline;
  const std::int64_t samples = pipeline ? recipe.distributed.pipeline->microbatch_size
                                        : recipe.step_scheduler.local_batch_size;
  const train::RowSize training = pack_size(report, recipe.dataset);
  // Such a size is a bound that no row reaches, and no memory can be planned for it.
  out.row_tokens = training.tokens > train::kLongestRow / samples ? 0 : training.tokens * samples;
  const train::RankShares shares{.expert_ranks = plan.ep * plan.ep_shard,
                                 .dense_ranks = plan.dp / plan.dp_replicate * plan.cp,
                                 .pipeline_stages = plan.pp};
  const Device target = plan.world_size > 1 ? Device::kCuda : train::choose_device(nullptr);
  // A rank's share of so many packs.
  const auto share = [&](train::RowSize size, std::int64_t packs) {
    size.packs = packs;
    size.tokens = std::max<std::int64_t>(1, size.tokens / plan.cp);
    return size;
  };
  const auto rows_of = [&](std::int64_t packs) {
    train::RunRows rows(out.row_tokens == 0 ? train::RowSize{} : share(training, packs));
    for (const train::DatasetEntry& entry : recipe.validation_datasets) {
      const std::int64_t batch = recipe.validation_dataloader.batch_size.value_or(packs);
      const train::RowSize size = pack_size(report, entry);
      if (size.tokens > 0 && size.tokens <= train::kLongestRow / batch)
        rows.validation.push_back(share(size, batch));
    }
    return rows;
  };
  out.estimate = train::estimate_memory(config, recipe, dtype, rows_of(samples), shares, target);
  if (available && out.estimate->total() > *available)
    out.advice = train::memory_advice(config, recipe, dtype, rows_of, target, *available);
  return out;
}

std::uint64_t needed_bytes(const RankMemory& memory) {
  const train::MemoryEstimate& e = *memory.estimate;
  return memory.row_tokens == 0 ? e.weights + e.gradients + e.optimizer : e.total();
}

std::optional<std::int64_t> ranks_that_hold(const CheckReport& report, std::uint64_t available) {
  if (!report.model) return std::nullopt;
  const train::Recipe& recipe = report.file.recipe;
  const auto plan = [&](std::optional<std::int64_t> world) {
    return train::plan_recipe(recipe, &report.model->config, world, std::nullopt);
  };
  for (std::int64_t world = plan(std::nullopt).world_size; world <= kMostRanksTried; world *= 2) {
    const RankMemory found = rank_memory(report, plan(world), std::nullopt);
    if (found.estimate && needed_bytes(found) <= available) return world;
  }
  return std::nullopt;
}

}  // namespace glmtune::apps
