#include "train/recipe_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/cat.h"

namespace glmtune::train {
namespace {

constexpr std::int64_t kGpusPerNode = 8;
// Sizes beyond these are slips; below them no product of a plan overflows.
constexpr std::int64_t kMostRanks = std::int64_t{1} << 20;
constexpr std::int64_t kMostSamples = std::int64_t{1} << 40;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// The divisors of n nearest to x from below and above: "32 or 64".
std::string nearest_divisors(std::int64_t n, std::int64_t x) {
  std::int64_t below = 0, above = 0;
  for (std::int64_t d = 1; d <= n; ++d) {
    if (n % d != 0) continue;
    if (d <= x) below = d;
    if (d >= x && above == 0) above = d;
  }
  return below != 0 && above != 0 && below != above ? cat(below, " or ", above)
                                                    : cat(below != 0 ? below : above);
}

// How a batch that does not divide can be mended, shortest change first.
std::string batch_advice(const StepSchedulerSettings& steps, std::int64_t dp, std::int64_t pp) {
  std::string out;
  if (steps.global_batch_size % dp == 0) {
    for (std::int64_t local = steps.local_batch_size; local >= 1; --local) {
      if (steps.global_batch_size % (local * dp) != 0) continue;
      out += cat("; or step_scheduler.local_batch_size ", local);
      break;
    }
  }
  for (const std::int64_t more : {std::int64_t{2}, std::int64_t{4}, std::int64_t{8}}) {
    if (pp > 1 || dp % more != 0) continue;
    if (steps.global_batch_size % (steps.local_batch_size * (dp / more)) != 0) continue;
    out += cat("; or distributed.pp_size ", more);
    break;
  }
  return out;
}

class Planner {
 public:
  Planner(const Recipe& recipe, const models::GlmConfig* model, RecipePlan& plan)
      : recipe_(recipe), model_(model), plan_(plan) {}

  void run() {
    const DistributedSettings& d = recipe_.distributed;
    plan_.pp = d.pp_size;
    plan_.cp = d.cp_size;
    plan_.tp = d.tp_size;
    plan_.ep = d.ep_size;
    if (!sizes()) return;
    batches();
    experts();
    context();
    pipeline();
    positions(recipe_.dataset);
    for (const DatasetEntry& entry : recipe_.validation_datasets) positions(entry);
  }

 private:
  void conflict(const std::string& line) { plan_.conflicts.push_back(line); }

  bool sizes() {
    const std::int64_t world = plan_.world_size;
    const std::int64_t model_ranks = plan_.tp * plan_.cp * plan_.pp;
    if (world % model_ranks != 0) {
      conflict(cat("world size ", world, " is no multiple of tp_size ", plan_.tp, " x cp_size ",
                   plan_.cp, " x pp_size ", plan_.pp, " = ", model_ranks,
                   "; nearest: ", nearest_multiples(model_ranks, world)));
      return false;
    }
    plan_.dp = world / model_ranks;
    const auto written = recipe_.distributed.dp_size;
    if (written && *written != plan_.dp) {
      conflict(cat("distributed.dp_size ", *written, ", but world size ", world, " leaves ",
                   plan_.dp, "; remove the key or run on ", *written * model_ranks, " ranks"));
      return false;
    }
    plan_.dp_replicate = recipe_.distributed.dp_replicate_size.value_or(1);
    if (plan_.dp % plan_.dp_replicate != 0)
      conflict(cat("distributed.dp_replicate_size ", plan_.dp_replicate,
                   " does not divide the data-parallel size ", plan_.dp,
                   "; nearest: ", nearest_divisors(plan_.dp, plan_.dp_replicate)));
    return true;
  }

  void batches() {
    const StepSchedulerSettings& steps = recipe_.step_scheduler;
    const std::int64_t at_once = steps.local_batch_size * plan_.dp;
    if (steps.global_batch_size % at_once != 0) {
      conflict(cat("step_scheduler.global_batch_size ", steps.global_batch_size,
                   " is no multiple of local_batch_size ", steps.local_batch_size,
                   " x data-parallel size ", plan_.dp, " = ", at_once,
                   "; nearest: global_batch_size ",
                   nearest_multiples(at_once, steps.global_batch_size),
                   batch_advice(steps, plan_.dp, plan_.pp)));
    } else {
      plan_.accumulation = steps.global_batch_size / at_once;
    }
    std::int64_t row = recipe_.dataset.packing.packed_sequence_size;
    if (const auto* mock = std::get_if<data::MockSettings>(&recipe_.dataset.settings);
        mock != nullptr && row == 0)
      row = mock->seq_len;
    if (row <= std::numeric_limits<std::int64_t>::max() / steps.global_batch_size)
      plan_.tokens_per_step = row * steps.global_batch_size;
  }

  void experts() {
    const std::int64_t ranks = plan_.world_size / plan_.pp;
    if (ranks % plan_.ep != 0) {
      conflict(cat("distributed.ep_size ", plan_.ep, " does not divide the ", ranks,
                   " ranks of a pipeline stage; nearest: ", nearest_divisors(ranks, plan_.ep),
                   "; or a world of ", nearest_multiples(plan_.pp * plan_.ep, plan_.world_size)));
    } else {
      plan_.ep_shard = ranks / plan_.ep;
    }
    if (model_ == nullptr) return;
    if (model_->n_routed_experts % plan_.ep != 0) {
      conflict(cat("distributed.ep_size ", plan_.ep, " does not divide the ",
                   model_->n_routed_experts,
                   " experts; nearest: ", nearest_divisors(model_->n_routed_experts, plan_.ep)));
    } else {
      plan_.experts_per_rank = model_->n_routed_experts / plan_.ep;
    }
  }

  void context() {
    if (plan_.cp == 1) return;
    if (recipe_.model.backend.attn == AttentionBackend::kDense)
      conflict(cat("distributed.cp_size ", plan_.cp,
                   " needs keys selected per query; "
                   "model.backend.attn ",
                   recipe_.model.backend.attn_name,
                   " is dense: set it to cudnn, tilelang or flashmla"));
    const std::int64_t pack = recipe_.dataset.packing.packed_sequence_size;
    if (pack == 0) {
      conflict(cat("distributed.cp_size ", plan_.cp,
                   " needs packed sequences: set packed_sequence.packed_sequence_size"));
    } else if (pack % plan_.cp != 0) {
      conflict(cat("packed_sequence.packed_sequence_size ", pack,
                   " is no multiple of distributed.cp_size ", plan_.cp,
                   "; nearest: ", nearest_multiples(plan_.cp, pack)));
    }
  }

  void pipeline() {
    if (plan_.pp == 1 || !recipe_.distributed.pipeline) return;
    const PipelineSettings& p = *recipe_.distributed.pipeline;
    const std::int64_t local = recipe_.step_scheduler.local_batch_size;
    if (local / p.microbatch_size < plan_.pp)
      conflict(cat("step_scheduler.local_batch_size ", local, " holds ", local / p.microbatch_size,
                   " pipeline micro-batches of ", p.microbatch_size, "; distributed.pp_size ",
                   plan_.pp, " needs as many or more: set local_batch_size ",
                   plan_.pp * p.microbatch_size));
    if (model_ == nullptr) return;
    const std::int64_t layers = model_->num_hidden_layers;
    if (layers < plan_.pp) {
      conflict(
          cat("distributed.pp_size ", plan_.pp, " is more than the model's ", layers, " layers"));
      return;
    }
    plan_.stage_layers = stage_layers(layers, plan_.pp, p);
    shared_cuts();
  }

  // Stages that begin with a layer that owns no indexer.
  void shared_cuts() {
    constexpr std::int64_t kShown = 3;
    std::int64_t first = 0, stage = 0, shared = 0;
    std::string list;
    for (const std::int64_t n : plan_.stage_layers) {
      if (!model_->is_full(first) && ++shared <= kShown) {
        std::int64_t below = first, above = first;
        while (below > 0 && !model_->is_full(below)) --below;
        while (above < model_->num_hidden_layers && !model_->is_full(above)) ++above;
        list += cat(shared == 1 ? "" : "; ", "stage ", stage, " at layer ", first,
                    " (nearest cuts without that: ", below,
                    above < model_->num_hidden_layers ? cat(" or ", above) : "", ")");
      }
      first += n;
      ++stage;
    }
    if (shared > kShown) list += cat("; and ", shared - kShown, " more");
    if (shared > 0)
      plan_.notes.push_back(cat(shared, " of ", stage,
                                " pipeline stages begin with a layer that shares the selected keys "
                                "of an earlier one, which are sent along with the hidden state: ",
                                list));
  }

  // Only a sample's own length counts: positions restart in every document of a pack.
  void positions(const DatasetEntry& entry) {
    if (model_ == nullptr || model_->max_position_embeddings == 0) return;
    const std::int64_t longest = std::visit(
        [&](const auto& settings) -> std::int64_t {
          if constexpr (requires { settings.seq_len; }) return settings.seq_len;
          std::int64_t out = entry.packing.packed_sequence_size;
          if constexpr (requires { settings.seq_length; })
            if (settings.seq_length && settings.too_long != data::TooLong::kKeep)
              out = out == 0 ? *settings.seq_length : std::min(out, *settings.seq_length);
          return out;
        },
        entry.settings);
    if (longest > model_->max_position_embeddings)
      plan_.notes.push_back(cat(entry.key, ": samples may have up to ", longest,
                                " tokens, beyond the model's max_position_embeddings ",
                                model_->max_position_embeddings));
  }

  const Recipe& recipe_;
  const models::GlmConfig* model_;
  RecipePlan& plan_;
};

// What is too large to be planned at all; empty when nothing is.
std::string beyond_reason(const Recipe& recipe) {
  const DistributedSettings& d = recipe.distributed;
  double ranks = static_cast<double>(d.pp_size) * static_cast<double>(d.cp_size) *
                 static_cast<double>(d.tp_size) * static_cast<double>(d.dp_size.value_or(1));
  ranks = std::max(ranks, static_cast<double>(d.pp_size) * static_cast<double>(d.ep_size));
  ranks = std::max(ranks, static_cast<double>(d.dp_replicate_size.value_or(1)));
  if (ranks > kMostRanks)
    return cat("the sizes of distributed ask for ", ranks, " ranks; expected at most ", kMostRanks);
  if (recipe.step_scheduler.global_batch_size > kMostSamples)
    return cat("step_scheduler.global_batch_size is ", recipe.step_scheduler.global_batch_size,
               "; expected at most ", kMostSamples);
  return "";
}

}  // namespace

std::string nearest_multiples(std::int64_t of, std::int64_t x) {
  const std::int64_t below = x / of * of, above = ceil_div(x, of) * of;
  return below > 0 && below != above ? cat(below, " or ", above) : cat(above);
}

std::vector<std::int64_t> stage_layers(std::int64_t layers, std::int64_t pp,
                                       const PipelineSettings& pipeline) {
  std::int64_t stages = pp;
  if (pipeline.layers_per_stage) stages = ceil_div(layers, *pipeline.layers_per_stage);
  if (pipeline.round_virtual_stages == "down") stages = std::max(stages / pp, std::int64_t{1}) * pp;
  if (pipeline.round_virtual_stages == "up") stages = ceil_div(stages, pp) * pp;
  stages = std::clamp(stages, std::int64_t{1}, layers);
  std::vector<std::int64_t> out(static_cast<std::size_t>(stages), layers / stages);
  for (std::int64_t i = 0; i < layers % stages; ++i) ++out[static_cast<std::size_t>(i)];
  return out;
}

RecipePlan plan_recipe(const Recipe& recipe, const models::GlmConfig* model,
                       std::optional<std::int64_t> world_size,
                       std::optional<std::int64_t> ci_nodes) {
  const DistributedSettings& d = recipe.distributed;
  RecipePlan plan;
  if (const std::string line = beyond_reason(recipe); !line.empty()) {
    plan.conflicts.push_back(line);
    return plan;
  }
  if (world_size) {
    plan.world_size = *world_size;
    plan.world_size_from = "--world-size";
  } else if (ci_nodes) {
    plan.world_size = *ci_nodes * kGpusPerNode;
    plan.world_size_from = cat("ci.nodes x ", kGpusPerNode);
  } else {
    plan.world_size =
        d.pp_size * std::lcm(d.cp_size * d.tp_size * d.dp_size.value_or(1), d.ep_size);
    plan.world_size_from = "smallest that fits";
  }
  if (plan.world_size > kMostRanks) {
    plan.conflicts.push_back(cat("a world of ", plan.world_size, " ranks (", plan.world_size_from,
                                 "); expected at most ", kMostRanks));
    return plan;
  }
  Planner(recipe, model, plan).run();
  return plan;
}

}  // namespace glmtune::train
