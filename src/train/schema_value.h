#pragma once
// Values of single keys: a YAML node as the type that its row of the schema asks for.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "train/schema.h"
#include "train/yaml_document.h"

namespace glmtune::train {

// The parts of KeyRow::values.
std::vector<std::string_view> words(std::string_view values, char separator);
bool has_word(std::string_view values, std::string_view word);

// None when the node is something else: a line is then added to `errors`, with where it stands, the
// key's path, what was found and what was expected. Targets, choices and dtypes stay as written.
// Not for sections.
std::optional<io::Value> typed_value(const KeyRow& row, const YamlNode& node,
                                     const std::string& path, std::vector<std::string>& errors);

}  // namespace glmtune::train
