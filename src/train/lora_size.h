#pragma once
// How many parameters the adapters of a recipe's `peft` section have, for planning.
//
// Linear weight [out, in]: A [r, in] and B [out, r], with DoRA also a magnitude [out]. Grouped
// experts [E, ...], one adapter an expert: gate_up A [E, H, r], B [E, r, 2I]; down A [E, I, r],
// B [E, r, H] (recipes.md section 4). Patterns are AutoModel's: "*" is any text, the whole name of
// the module must match, or a target is the name's last part.
#include <cstdint>
#include <string>
#include <vector>

#include "nn/parameter.h"
#include "train/name_pattern.h"
#include "train/recipe.h"

namespace glmtune::train {

class LoraSize {
 public:
  // experts_per_tok: of the model, for peft.moe_rank_scaling. Throws Error for a target that is no
  // pattern and for a scaled rank below 1.
  LoraSize(const LoraSettings& settings, std::int64_t experts_per_tok);

  // Parameters of the adapters on this one; 0 where it gets none.
  std::int64_t parameters_on(const nn::Parameter& base);

  // Entries of target_modules that matched no module so far.
  std::vector<std::string> unmatched() const;

 private:
  struct Target {
    std::string text;
    NamePattern pattern;
    bool matched = false;
  };
  bool matches(const std::string& module, bool linear);

  LoraSettings settings_;
  std::int64_t expert_rank_;
  std::vector<Target> targets_, excluded_;
};

}  // namespace glmtune::train
