#include "train/schema.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/cat.h"
#include "base/error.h"

namespace glmtune::train {
namespace {

std::vector<std::string> split(std::string_view s, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t at = s.find(separator);
    parts.emplace_back(s.substr(0, at));
    if (at == std::string_view::npos) return parts;
    s.remove_prefix(at + 1);
  }
}

SchemaNode& child_of(SchemaNode& parent, const std::string& name,
                     const std::vector<std::string>& variants) {
  for (SchemaNode::Child& child : parent.children)
    if (child.name == name && child.variants == variants) return *child.node;
  parent.children.push_back({name, variants, std::make_unique<SchemaNode>()});
  return *parent.children.back().node;
}

SchemaNode build_tree() {
  SchemaNode root;
  for (const KeyRow& row : schema_rows()) {
    SchemaNode* node = &root;
    std::vector<std::string> variants;
    for (std::string part : split(row.path, '.')) {
      if (part.ends_with("[]")) part.resize(part.size() - 2);
      std::vector<std::string> next;
      if (const std::size_t open = part.find('('); open != std::string::npos) {
        next = split(std::string_view(part).substr(open + 1, part.size() - open - 2), '|');
        part.resize(open);
      }
      node = &child_of(*node, part, variants);
      variants = std::move(next);
    }
    if (node->row != nullptr) fail(cat("schema: two rows for ", row.path));
    node->row = &row;
  }
  return root;
}

// Edits (insert, delete, replace, swap of neighbours) that turn a into b.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        now[j] = std::min(now[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

}  // namespace

const TargetRow* find_target(std::string_view group, std::string_view path) {
  std::string full(path);
  static constexpr std::string_view kAlias = "nemo_automodel.models.";
  if (path.starts_with(kAlias))
    full = cat("nemo_automodel.components.models.", path.substr(kAlias.size()));
  for (const TargetRow& row : schema_targets())
    if (row.group == group && row.path == full) return &row;
  return nullptr;
}

std::string known_targets(std::string_view group) {
  std::string list;
  for (const TargetRow& row : schema_targets())
    if (row.group == group) list += cat(list.empty() ? "" : ", ", row.path);
  return list;
}

const SchemaNode* SchemaNode::child(std::string_view name, std::string_view variant) const {
  for (const Child& child : children) {
    const bool fits =
        child.variants.empty() ||
        std::find(child.variants.begin(), child.variants.end(), variant) != child.variants.end();
    if (fits && child.name == name) return child.node.get();
  }
  return nullptr;
}

std::vector<std::string> SchemaNode::child_names(std::string_view variant) const {
  std::vector<std::string> names;
  for (const Child& c : children)
    if (child(c.name, variant) == c.node.get()) names.push_back(c.name);
  return names;
}

const SchemaNode& schema_tree() {
  static const SchemaNode tree = build_tree();
  return tree;
}

std::string_view schema_section(std::string_view top_level_key) {
  if (top_level_key == "validation_dataloader") return "dataloader";
  static constexpr std::string_view kValidation = "validation_dataset";
  if (top_level_key == kValidation) return "dataset";
  if (top_level_key.starts_with(kValidation) && top_level_key.size() > kValidation.size() + 1) {
    const char separator = top_level_key[kValidation.size()];
    if (separator == '_' || separator == '.' || separator == '-') return "dataset";
  }
  return top_level_key;
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  // The same thing by its usual name elsewhere, which shares few letters.
  if (word == "learning_rate" &&
      std::find(candidates.begin(), candidates.end(), "lr") != candidates.end())
    return "lr";
  std::string best;
  std::size_t best_distance = std::numeric_limits<std::size_t>::max();
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace glmtune::train
