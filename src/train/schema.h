#pragma once
// The recipe language as data: one row a key. The same rows parse, check, dump and document
// (docs/recipe.md), so nothing about a key is said twice.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace glmtune::train {

enum class KeyType : std::uint8_t {
  kBool,
  kInt,
  kNumber,
  kString,
  kChoice,           // one of `values`
  kDtype,            // float32, torch.bfloat16, fp64 and the like
  kTarget,           // a _target_ of the group named in `values`
  kTargetOrSection,  // a target, or a map with _target_ and its arguments
  kStringOrList,
  kInts,
  kNumbers,
  kStrings,   // `values` not empty: each is one of them
  kSection,   // a map whose keys are rows of the table
  kSections,  // a list of such maps
  kOpenMap,   // a map whose keys are not looked into
  kOpen,      // anything; not looked into
};

enum class KeyStatus : std::uint8_t {
  kRuns,           // has its full effect
  kDependent,      // belongs to a feature that other rows stand for; never reported by itself
  kNoCounterpart,  // accepted and type-checked, nothing here corresponds to it
  kIgnored,        // accepted without effect, with a warning
  kNotYet,         // accepted by `check`; a run refuses it unless it has its default
};

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): the order in which rows are written
struct KeyRow {
  // Dotted. `dataset(ChatDataset).split` exists where dataset's _target_ is a ChatDataset,
  // `a[].b` is key b of every map in list a.
  std::string_view path;
  KeyType type;
  // As a recipe would spell it; "" none, "required"; of a section, "{}": its defaults hold where
  // it is absent.
  std::string_view fallback;
  // kChoice: words separated by |, those that do not run yet begin with !. Numbers: ">0", ">=0",
  // ">=1"; ">=0 inf": also .inf. "null" anywhere: an explicit null is a value of its own and not
  // the fallback. kTarget: the group in the table of targets.
  std::string_view values;
  KeyStatus status;
  std::string_view doc;
};

struct TargetRow {
  std::string_view group;  // "dataset", "optimizer", ...
  std::string_view path;   // "torch.optim.Adam"
  std::string_view name;   // "Adam": the variant of keys that come with it
  bool runs;
};

std::span<const KeyRow> schema_rows();
std::span<const TargetRow> schema_targets();

// nemo_automodel.models... is read as nemo_automodel.components.models...; null when unknown.
const TargetRow* find_target(std::string_view group, std::string_view path);
// "a, b, c": every path of a group.
std::string known_targets(std::string_view group);

// The rows as a tree.
struct SchemaNode {
  struct Child {
    std::string name;
    std::vector<std::string> variants;  // of the parent; empty: all
    std::unique_ptr<SchemaNode> node;
  };
  const KeyRow* row = nullptr;  // null at the root
  std::vector<Child> children;

  // Null when the key does not exist in this variant.
  const SchemaNode* child(std::string_view name, std::string_view variant) const;
  std::vector<std::string> child_names(std::string_view variant) const;
};

const SchemaNode& schema_tree();
// The top-level key whose rows describe `name`: validation_dataset, validation_dataset_NAME,
// .NAME and -NAME are data sets, validation_dataloader is a dataloader.
std::string_view schema_section(std::string_view top_level_key);

// The candidate with the smallest edit distance; empty without candidates.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace glmtune::train
