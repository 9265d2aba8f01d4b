#include "train/recipe_reader.h"

#include "base/cat.h"
#include "base/error.h"
#include "train/schema_scalar.h"

namespace glmtune::train {

const io::Value* RecipeReader::value(std::string_view path) const {
  const CheckedKey* key = checked_.find(path);
  return key == nullptr || key->value.is_null() ? nullptr : &key->value;
}

std::optional<bool> RecipeReader::flag(std::string_view path) const {
  const io::Value* v = value(path);
  return v == nullptr ? std::nullopt : std::optional(v->as_bool());
}

std::optional<std::int64_t> RecipeReader::integer(std::string_view path) const {
  const io::Value* v = value(path);
  return v == nullptr ? std::nullopt : std::optional(v->as_int());
}

std::optional<double> RecipeReader::number(std::string_view path) const {
  const io::Value* v = value(path);
  return v == nullptr ? std::nullopt : std::optional(v->as_double());
}

std::optional<std::string> RecipeReader::text(std::string_view path) const {
  const io::Value* v = value(path);
  return v == nullptr ? std::nullopt : std::optional(v->as_string());
}

std::optional<DType> RecipeReader::dtype(std::string_view path) const {
  const auto name = text(path);
  return name ? dtype_from_text(*name) : std::nullopt;
}

std::vector<std::string> RecipeReader::strings(std::string_view path) const {
  const io::Value* v = value(path);
  if (v == nullptr) return {};
  if (v->is_string()) return {v->as_string()};
  std::vector<std::string> out;
  for (const io::Value& item : v->as_array()) out.push_back(item.as_string());
  return out;
}

std::vector<double> RecipeReader::numbers(std::string_view path) const {
  const io::Value* v = value(path);
  std::vector<double> out;
  if (v != nullptr)
    for (const io::Value& item : v->as_array()) out.push_back(item.as_double());
  return out;
}

std::string RecipeReader::where(std::string_view path) const {
  if (const CheckedKey* key = checked_.find(path)) return key->where;
  const CheckedSection* section = checked_.section(path);
  return section == nullptr ? std::string(path) : section->where;
}

std::string RecipeReader::place(std::string_view path) const {
  const CheckedKey* key = checked_.find(path);
  if (key == nullptr) return std::string(path);
  const bool named = key->where.find(path) != std::string::npos;  // an argument names its key
  return named ? key->where : cat(key->where, ": ", path);
}

void RecipeReader::reject(std::string_view path, const std::string& what) const {
  const CheckedKey* key = checked_.find(path);
  if (key == nullptr) fail(cat(path, ": ", what));
  const std::string shown =
      key->shown.is_string() ? cat("'", key->shown.as_string(), "'") : io::to_json(key->shown);
  fail(cat(key->where, ": ", path, " is ", shown, "; ", what));
}

}  // namespace glmtune::train
