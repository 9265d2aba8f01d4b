#include "train/run_description.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cat.h"

namespace glmtune::train {
namespace {

const char* style_name(DecayStyle style) {
  switch (style) {
    case DecayStyle::kConstant:
      return "constant";
    case DecayStyle::kLinear:
      return "linear";
    case DecayStyle::kCosine:
      return "cosine";
    case DecayStyle::kInverseSquareRoot:
      return "inverse-square-root";
    case DecayStyle::kWsd:
      return "WSD";
  }
  return "";
}

std::string state_text(const OptimizerSettings& o, DType weights) {
  const bool low = o.master_weights == MasterWeights::kBf16;
  const char* unused = low ? " (master_weights is for bf16 weights)" : "";
  if (weights == DType::kF32) return cat("fp32 weights and moments", unused);
  if (weights == DType::kF64) return cat("fp64 weights and moments", unused);
  if (o.master_weights == MasterWeights::kFp32) return "exact fp32 master";
  const std::string moments =
      o.exp_avg_dtype == o.exp_avg_sq_dtype
          ? std::string(name_of(o.exp_avg_dtype))
          : cat(name_of(o.exp_avg_dtype), " and ", name_of(o.exp_avg_sq_dtype));
  return cat("bf16 weights without a master copy",
             o.stochastic_rounding    ? ", rounded stochastically"
             : o.round_each_operation ? ", each operation rounded as torch does"
                                      : "",
             ", moments ", moments);
}

// "model.layers.7.mlp.gate.weight" as "mlp.gate.weight".
std::string_view without_layer(std::string_view name) {
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return name;
  const std::size_t dot = name.find('.', kLayers.size());
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

}  // namespace

std::string optimizer_line(const Recipe& recipe, DType weights) {
  const OptimizerSettings& o = recipe.optimizer;
  const auto& schedule = recipe.lr_scheduler;
  const bool clips = recipe.max_grad_norm > 0 && std::isfinite(recipe.max_grad_norm);
  return cat(o.kind == OptimizerKind::kAdam ? "Adam" : "AdamW", ", lr ", o.lr, " ",
             schedule ? style_name(schedule->decay_style) : "constant", ", betas ", o.beta1, " ",
             o.beta2, o.bias_correction ? "" : " uncorrected", ", weight decay ", o.weight_decay,
             ", ", state_text(o, weights), ", clipping ",
             clips ? cat(recipe.max_grad_norm) : std::string("off"));
}

std::string experiment_line(const Recipe& recipe, Device device) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const passwd* user = getpwuid(getuid());
  return cat("experiment: ", user != nullptr ? user->pw_name : cat("uid ", getuid()), "@",
             host.data(), ", 1 rank on the ", device == Device::kCuda ? "GPU" : "CPU",
             ", TrainFinetuneRecipeForNextTokenPrediction of ", recipe.path, ", model ",
             recipe.model.pretrained_model_name_or_path);
}

std::string schedule_line(const Recipe& recipe, const StepScheduler& schedule, std::int64_t done) {
  const StepSchedulerSettings& s = recipe.step_scheduler;
  const auto every = [](std::optional<std::int64_t> steps) {
    return steps ? cat("every ", *steps, " steps") : std::string();
  };
  std::string out =
      cat("schedule: global batch ", s.global_batch_size, " = local batch ", s.local_batch_size,
          " x accumulation ", s.global_batch_size / s.local_batch_size, "; ");
  if (schedule.steps_per_epoch()) out += cat(*schedule.steps_per_epoch(), " steps an epoch, ");
  out += cat(schedule.total_steps(), " in all");
  if (done > 0) out += cat(", ", schedule.total_steps() - done, " to do");
  if (recipe.checkpoint.enabled) {
    out +=
        cat("; checkpoints ", s.ckpt_every_steps ? every(s.ckpt_every_steps) : "at ends of epochs",
            s.ckpt_every_steps && s.save_checkpoint_every_epoch ? ", at ends of epochs" : "",
            " and after the last step, ");
    const auto keep = recipe.checkpoint.max_recent_checkpoints;
    out += keep ? cat("the newest ", *keep, " kept") : "all kept";
  }
  if (!recipe.validation_datasets.empty())
    out += cat("; validation ", every(s.val_every_steps), s.val_every_steps ? " and " : "",
               "before checkpoints");
  return out;
}

std::string rates_line(const Recipe& recipe, const LrSchedule& rates, std::int64_t first,
                       std::int64_t total_steps) {
  std::string out = fmt::format("learning rate: {} for step {}", rates.learning_rate(first), first);
  if (!recipe.lr_scheduler) return out + ", constant";
  const std::int64_t top = rates.warmup_steps();
  if (first < top && top < total_steps)
    out += fmt::format(", {} for step {}", rates.learning_rate(top), top);
  if (total_steps - 1 > std::max(first, top))
    out += fmt::format(", {} for step {}, {}", rates.learning_rate(total_steps - 1),
                       total_steps - 1, style_name(recipe.lr_scheduler->decay_style));
  return out;
}

std::string attention_line(const nn::AttentionSettings& attention) {
  if (attention.force)
    return cat("attention: dense kernel, selected keys as a mask beyond ", attention.index_topk,
               " tokens");
  return cat("attention: documents up to index_topk = ", attention.index_topk,
             " tokens attend densely without the indexer, up to ", attention.masked_max_tokens,
             " with selected keys as a mask, longer ones over gathered keys");
}

std::string frozen_line(models::CausalLm& model, std::int64_t mtp_layers) {
  std::vector<data::Count> names;
  model.visit_parameters([&](nn::Parameter& p) {
    if (!p.trainable) data::add_count(names, std::string(without_layer(p.name)));
  });
  if (mtp_layers > 0)
    names.push_back(
        {.what = "multi-token-prediction layers, carried along as they are", .count = mtp_layers});
  std::string list;
  for (const data::Count& c : names)
    list += cat(list.empty() ? "not trained: " : ", ", c.what, " (", c.count, ")");
  return list;
}

io::Value run_facts(const Recipe& recipe, const std::string& model_commit,
                    const data::ChatFacts& chat) {
  io::Value facts(io::Value::Object{{"model", recipe.model.pretrained_model_name_or_path}});
  if (!model_commit.empty()) facts.set("model_commit", model_commit);
  if (chat.template_sha256.empty()) return facts;
  facts.set("chat_template_sha256", chat.template_sha256);
  facts.set("untrained", io::Value::Array(chat.untrained.begin(), chat.untrained.end()));
  return facts;
}

}  // namespace glmtune::train
