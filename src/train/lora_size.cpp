#include "train/lora_size.h"

#include <string_view>

#include "base/cat.h"
#include "base/error.h"

namespace glmtune::train {
namespace {

constexpr std::string_view kWeight = ".weight";

// "*" and ".*" are any text; everything else is read as AutoModel reads it: a regular expression.
std::string anchored(const std::string& wildcard) {
  std::string out = "^";
  for (std::size_t i = 0; i < wildcard.size(); ++i) {
    if (wildcard[i] == '*')
      out += ".*";
    else if (wildcard[i] != '.' || i + 1 == wildcard.size() || wildcard[i + 1] != '*')
      out += wildcard[i];
  }
  return out + "$";
}

bool is_experts(const std::string& name) {
  return name.ends_with(".mlp.experts.gate_up_proj") || name.ends_with(".mlp.experts.down_proj");
}

// A matrix that is a linear layer of its own: neither the embedding nor the router.
bool is_linear(const nn::Parameter& p) {
  return p.value.rank == 2 && p.name.ends_with(kWeight) &&
         !p.name.ends_with(".embed_tokens.weight") && !p.name.ends_with(".mlp.gate.weight");
}

std::string_view last_part(std::string_view module) {
  return module.substr(module.find_last_of('.') + 1);
}

}  // namespace

LoraSize::LoraSize(const LoraSettings& settings, std::int64_t experts_per_tok)
    : settings_(settings), expert_rank_(settings.dim) {
  if (settings_.moe_rank_scaling) expert_rank_ /= experts_per_tok;
  if (expert_rank_ < 1)
    fail(cat("peft.moe_rank_scaling: the experts' rank is peft.dim ", settings_.dim,
             " / num_experts_per_tok ", experts_per_tok,
             ", below 1; expected peft.dim of at least ", experts_per_tok));
  if (!settings_.match_all_linear && settings_.target_modules.empty() &&
      settings_.exclude_modules.empty())
    settings_.target_modules = {"*_proj"};
  const auto compile = [](const char* key, const std::vector<std::string>& texts,
                          std::vector<Target>& out) {
    for (const std::string& text : texts) {
      try {
        out.push_back({.text = text, .pattern = NamePattern(anchored(text))});
      } catch (const Error& e) {
        fail(cat("peft.", key, ": '", text, "': ", e.what()));
      }
    }
  };
  compile("target_modules", settings_.target_modules, targets_);
  compile("exclude_modules", settings_.exclude_modules, excluded_);
}

bool LoraSize::matches(const std::string& module, bool linear) {
  const auto names = [&](const Target& t) {
    return last_part(module) == t.text || t.pattern.found_in(module);
  };
  if (settings_.match_all_linear) return linear;
  bool found = false;
  for (Target& target : targets_)
    if (names(target)) found = target.matched = true;
  if (!targets_.empty()) return found;
  for (const Target& target : excluded_)
    if (names(target)) return false;
  return linear;
}

std::int64_t LoraSize::parameters_on(const nn::Parameter& base) {
  if (is_experts(base.name)) {
    if (!matches(base.name.substr(0, base.name.find_last_of('.')), false)) return 0;
    return base.value.size(0) * expert_rank_ * (base.value.size(1) + base.value.size(2));
  }
  if (!is_linear(base)) return 0;
  const std::int64_t out = base.value.size(0), in = base.value.size(1);
  if (!matches(base.name.substr(0, base.name.size() - kWeight.size()), true)) return 0;
  return settings_.dim * (out + in) + (settings_.use_dora ? out : 0);
}

std::vector<std::string> LoraSize::unmatched() const {
  std::vector<std::string> out;
  for (const Target& target : targets_)
    if (!target.matched) out.push_back(target.text);
  return out;
}

}  // namespace glmtune::train
