#include "train/schema_status.h"

#include <utility>

#include "base/cat.h"
#include "train/schema_scalar.h"
#include "train/schema_value.h"

namespace glmtune::train {
namespace {

// How a value reads in a list or message.
std::string text_of(const io::Value& value) {
  return value.is_string() ? value.as_string() : io::to_json(value);
}

void report_choice(const KeyRow& row, const std::string& path, const std::string& text,
                   CheckedDocument& out) {
  const std::string_view canonical =
      row.type == KeyType::kDtype ? dtype_name_from_text(text) : std::string_view(text);
  std::string runs, first;
  bool runs_not = false;
  for (std::string_view word : words(row.values, '|')) {
    const bool later = word.starts_with('!');
    if (later) word.remove_prefix(1);
    if (later && word == canonical) runs_not = true;
    if (!later && first.empty()) first = word;
    if (!later) runs += cat(runs.empty() ? "" : ", ", word);
  }
  if (runs_not)
    add_not_runnable(out, cat(path, " ", text, " (", runs, " run)"), cat(path, " ", first));
}

bool same_as_fallback(const KeyRow& row, const io::Value& value) {
  if (row.type == KeyType::kBool)
    return value.as_bool() == bool_from_text(row.fallback).value_or(!value.as_bool());
  if (row.type == KeyType::kInt || row.type == KeyType::kNumber) {
    // Sizes whose fallback is null are off at 1.
    const double off = number_from_text(row.fallback).value_or(1);
    return value.as_double() == off;
  }
  return false;
}

std::string_view running_target(std::string_view group) {
  for (const TargetRow& target : schema_targets())
    if (target.group == group && target.runs) return target.path;
  return "null";
}

}  // namespace

void report_status(const KeyRow& row, const YamlNode& node, const std::string& path,
                   const io::Value& value, CheckedDocument& out) {
  if (row.type == KeyType::kTarget || row.type == KeyType::kTargetOrSection) {
    if (const TargetRow* found = node.is_scalar() ? find_target(row.values, node.text) : nullptr;
        found != nullptr && !found->runs)
      add_not_runnable(out, cat(path, " ", node.text), cat(path, " ", running_target(row.values)));
  }
  if (row.type == KeyType::kChoice || row.type == KeyType::kDtype)
    report_choice(row, path, value.as_string(), out);
  if (row.status == KeyStatus::kNoCounterpart) out.no_counterpart.push_back(path);
  const bool off = same_as_fallback(row, value);
  if (row.status == KeyStatus::kIgnored && !off)
    out.warnings.push_back(cat(node.key_where.empty() ? node.where : node.key_where, ": ", path,
                               " is ignored: ", row.doc));
  if (row.status != KeyStatus::kNotYet || off) return;
  const bool is_section =
      row.type == KeyType::kSection || row.type == KeyType::kOpenMap || row.type == KeyType::kOpen;
  add_not_runnable(out, is_section ? path : cat(path, " ", text_of(value)),
                   cat(path, " ", is_section || row.fallback.empty() ? "null" : row.fallback));
}

void add_not_runnable(CheckedDocument& out, std::string what, std::string instead) {
  out.not_runnable.push_back(std::move(what));
  out.runs_with.push_back(std::move(instead));
}

}  // namespace glmtune::train
