#include "train/run_description.h"

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
  if (weights == DType::kF32) return "fp32 weights and moments";
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
