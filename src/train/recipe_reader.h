#pragma once
// Typed access to checked keys for build_recipe.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"
#include "train/schema_check.h"

namespace glmtune::train {

// Every getter gives nothing where the key is absent without fallback, or null.
class RecipeReader {
 public:
  explicit RecipeReader(const CheckedDocument& checked) : checked_(checked) {}

  std::optional<bool> flag(std::string_view path) const;
  std::optional<std::int64_t> integer(std::string_view path) const;
  std::optional<double> number(std::string_view path) const;
  std::optional<std::string> text(std::string_view path) const;
  std::optional<DType> dtype(std::string_view path) const;        // "auto" is nothing
  std::vector<std::string> strings(std::string_view path) const;  // one string: a list of one
  std::vector<double> numbers(std::string_view path) const;
  const io::Value* value(std::string_view path) const;
  const CheckedKey* key(std::string_view path) const { return checked_.find(path); }

  bool has_section(std::string_view path) const { return checked_.section(path) != nullptr; }
  std::string_view variant(std::string_view section) const { return checked_.variant(section); }
  // Where the key or section stands, for messages.
  std::string where(std::string_view path) const;
  // The same and the key: "recipe.yaml:12: dataset.split", "argument --dataset.split".
  std::string place(std::string_view path) const;
  // Throws Error "where: path is <value>; <what>".
  [[noreturn]] void reject(std::string_view path, const std::string& what) const;

 private:
  const CheckedDocument& checked_;
};

}  // namespace glmtune::train
