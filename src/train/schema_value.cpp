#include "train/schema_value.h"

#include <algorithm>
#include <cmath>

#include "base/cat.h"
#include "base/error.h"
#include "train/schema_scalar.h"

namespace glmtune::train {
namespace {

using Errors = std::vector<std::string>;

std::optional<io::Value> wrong(const YamlNode& node, const std::string& path,
                               const std::string& expected, Errors& errors) {
  errors.push_back(
      node.implied ? cat(node.where, ": a value is missing; expected ", expected)
                   : cat(node.where, ": ", path, " is ", node.describe(), "; expected ", expected));
  return std::nullopt;
}

std::optional<io::Value> number(const KeyRow& row, const YamlNode& node, const std::string& path,
                                Errors& errors) {
  const bool whole = row.type == KeyType::kInt || row.type == KeyType::kInts;
  const bool may_be_inf = has_word(row.values, "inf");
  std::string expected = whole ? "a whole number" : "a number";
  std::string_view bound;
  for (const std::string_view word : words(row.values, ' '))
    if (word.starts_with(">")) bound = word;
  if (bound == ">=0") expected += ", 0 or more";
  if (bound == ">=1") expected += ", 1 or more";
  if (bound == ">0") expected += " above 0";
  if (may_be_inf) expected += ", or .inf";
  std::optional<double> value;
  std::optional<std::int64_t> integer;
  if (node.is_scalar() && whole) {
    integer = int_from_text(node.text);
    if (integer) value = static_cast<double>(*integer);
  } else if (node.is_scalar()) {
    value = number_from_text(node.text);
  }
  if (node.is_scalar() && !value && is_number(node.text)) {
    const bool fraction = node.text.find_first_of(".eE") != std::string::npos;
    if (!whole)
      expected += " that double precision holds, 4.9e-324 to 1.8e308";
    else if (!fraction)
      expected += " of at most 9223372036854775807";
  }
  const double low = bound == ">=1" ? 1 : 0;
  const bool bounded = !bound.empty();
  if (!value || (std::isinf(*value) && !may_be_inf) || (bounded && *value < low) ||
      (bound == ">0" && *value == 0))
    return wrong(node, path, expected, errors);
  return whole ? io::Value(*integer) : io::Value(*value);
}

bool in_brackets(std::string_view text) {
  return text.size() >= 2 && ((text.front() == '[' && text.back() == ']') ||
                              (text.front() == '(' && text.back() == ')'));
}

// A tuple of Python's: 0.9,0.95, also in brackets and quotes.
bool spells_list(std::string_view text) {
  const bool comma = text.find(',') != std::string_view::npos;
  return in_brackets(text) || (comma && !text.starts_with('[') && !text.starts_with('('));
}

YamlNode list_from_text(const YamlNode& node) {
  YamlNode list;
  list.kind = YamlNode::Kind::kList;
  list.where = node.where;
  list.key_where = node.key_where;
  std::string_view text = node.text;
  if (in_brackets(text)) text = text.substr(1, text.size() - 2);
  for (std::string_view word : words(text, ',')) {
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    list.items.push_back(node);
    list.items.back().text = word;
  }
  return list;
}

std::optional<io::Value> numbers(const KeyRow& row, const YamlNode& node, const std::string& path,
                                 Errors& errors) {
  if (node.is_scalar() && !node.implied && spells_list(node.text))
    return numbers(row, list_from_text(node), path, errors);
  if (!node.is_list()) return wrong(node, path, "a list of numbers", errors);
  io::Value::Array array;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    auto value = number(row, node.items[i], cat(path, "[", i, "]"), errors);
    if (!value) return std::nullopt;
    array.push_back(std::move(*value));
  }
  return io::Value(std::move(array));
}

// "a, b", the words of a choice or list.
std::string listed(std::string_view values) {
  std::string list;
  for (std::string_view word : words(values, '|')) {
    if (word.starts_with('!')) word.remove_prefix(1);
    list += cat(list.empty() ? "" : ", ", word);
  }
  return list;
}

std::optional<io::Value> strings(const KeyRow& row, const YamlNode& node, const std::string& path,
                                 const std::string& expected, Errors& errors) {
  if (!node.is_list()) return wrong(node, path, expected, errors);
  const auto known = words(row.values, '|');
  io::Value::Array array;
  for (const YamlNode& item : node.items) {
    if (!item.is_scalar()) return wrong(item, path, expected, errors);
    if (row.type == KeyType::kStrings && !known.empty() &&
        std::find(known.begin(), known.end(), item.text) == known.end())
      return wrong(item, cat(path, "[", array.size(), "]"), cat("one of: ", listed(row.values)),
                   errors);
    array.emplace_back(item.text);
  }
  return io::Value(std::move(array));
}

std::optional<io::Value> choice(const KeyRow& row, const YamlNode& node, const std::string& path,
                                Errors& errors) {
  std::string text = node.text;
  if (auto b = bool_from_text(text)) text = *b ? "true" : "false";
  for (std::string_view word : words(row.values, '|')) {
    if (word.starts_with('!')) word.remove_prefix(1);
    if (node.is_scalar() && word == text) return io::Value(text);
  }
  return wrong(node, path, "one of: " + listed(row.values), errors);
}

std::optional<io::Value> dtype(const YamlNode& node, const std::string& path, Errors& errors) {
  if (node.is_scalar() && (node.text == "auto" || !dtype_name_from_text(node.text).empty()))
    return io::Value(node.text);
  return wrong(node, path, "a type: bfloat16, float32, float64, float16", errors);
}

std::optional<io::Value> target(const KeyRow& row, const YamlNode& node, const std::string& path,
                                Errors& errors) {
  if (node.is_scalar() && find_target(row.values, node.text) != nullptr)
    return io::Value(node.text);
  errors.push_back(cat(node.where, ": unknown ", path, " ", node.describe(),
                       "; known here: ", known_targets(row.values)));
  return std::nullopt;
}

}  // namespace

std::vector<std::string_view> words(std::string_view s, char separator) {
  std::vector<std::string_view> out;
  while (!s.empty()) {
    const std::size_t at = s.find(separator);
    out.push_back(s.substr(0, at));
    if (at == std::string_view::npos) break;
    s.remove_prefix(at + 1);
  }
  return out;
}

bool has_word(std::string_view values, std::string_view word) {
  const auto list = words(values, ' ');
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::optional<io::Value> typed_value(const KeyRow& row, const YamlNode& node,
                                     const std::string& path, std::vector<std::string>& errors) {
  const bool text = row.type == KeyType::kString || row.type == KeyType::kStringOrList ||
                    row.type == KeyType::kTarget || row.type == KeyType::kTargetOrSection;
  if (node.implied && text) return wrong(node, path, cat("--", path, "=TEXT"), errors);
  switch (row.type) {
    case KeyType::kBool:
      if (node.is_scalar())
        if (auto b = bool_from_text(node.text)) return *b;
      return wrong(node, path, "true or false", errors);
    case KeyType::kInt:
    case KeyType::kNumber:
      return number(row, node, path, errors);
    case KeyType::kString:
      if (node.is_scalar()) return node.text;
      return wrong(node, path, "a string", errors);
    case KeyType::kChoice:
      return choice(row, node, path, errors);
    case KeyType::kDtype:
      return dtype(node, path, errors);
    case KeyType::kTarget:
    case KeyType::kTargetOrSection:
      return target(row, node, path, errors);
    case KeyType::kStringOrList:
      if (node.is_scalar()) return node.text;
      return strings(row, node, path, "a string or a list of strings", errors);
    case KeyType::kStrings:
      return strings(row, node, path, "a list of strings", errors);
    case KeyType::kInts:
    case KeyType::kNumbers:
      return numbers(row, node, path, errors);
    default:
      fail(cat("schema: ", path, " has no scalar type"));
  }
}

}  // namespace glmtune::train
