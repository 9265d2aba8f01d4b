#pragma once
// A recipe document held against the schema table: unknown keys, wrong types and missing keys are
// errors, the rest becomes typed values under dotted keys.
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "train/schema.h"
#include "train/yaml_document.h"

namespace glmtune::train {

struct CheckedKey {
  std::string path;  // "optimizer.betas", "optimizer.param_group_overrides[0].pattern"
  const KeyRow* row = nullptr;
  io::Value value;           // typed as the row says; targets, choices and dtypes as written
  io::Value shown;           // the same without secrets and expanded variables
  bool from_recipe = false;  // false: the fallback
  std::string where;         // of the value in the file, or the argument
};

struct CheckedSection {
  std::string path;
  std::string where;  // of its key
};

struct CheckedDocument {
  std::vector<CheckedKey> keys;             // in the recipe's order, fallbacks behind their section
  std::vector<CheckedSection> sections;     // those that stand in the recipe
  std::vector<std::string> top_level;       // the recipe's own keys, in order
  std::vector<std::string> warnings;        // whole lines
  std::vector<std::string> not_runnable;    // "distributed.pp_size 4", "peft"
  std::vector<std::string> runs_with;       // "distributed.pp_size 1", "peft null": what mends them
  std::vector<std::string> no_counterpart;  // dotted keys

  const CheckedKey* find(std::string_view path) const;
  CheckedKey* find(std::string_view path);
  const CheckedSection* section(std::string_view path) const;  // null when it is not there
  // The variant (name of the target) of a section's _target_; empty without one.
  std::string_view variant(std::string_view section) const;
};

// Throws one Error with a line for each mistake. `file` begins messages about missing keys.
CheckedDocument check_document(const YamlNode& root, const std::string& file);

}  // namespace glmtune::train
