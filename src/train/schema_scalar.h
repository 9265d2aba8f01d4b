#pragma once
// Scalars of the recipe language: YAML 1.2's core words and numbers, with the schema deciding the
// type. `1e-5` is a number, `010` is ten, `yes` is a word.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/json.h"
#include "tensor/dtype.h"
#include "train/yaml_document.h"

namespace glmtune::train {

// Nothing when the text is something else.
std::optional<bool> bool_from_text(std::string_view text);
// Whole numbers, also spelled 1e5 or 512.0.
std::optional<std::int64_t> int_from_text(std::string_view text);
// .inf and -.inf too; .nan is no number.
std::optional<double> number_from_text(std::string_view text);

// Whether a text spells a number, of any size.
bool is_number(std::string_view text);

// float32, torch.float32, fp32, bf16, half ... as "float32", "bfloat16", "float64", "float16";
// empty when it is no type.
std::string_view dtype_name_from_text(std::string_view text);
// F32, BF16, F64, F16.
std::optional<DType> dtype_from_text(std::string_view text);

// An untyped tree: quoted scalars are strings, plain ones what YAML 1.2 says they are.
// Printed: as it may be shown to others: text before interpolation, secrets as "********".
enum class Showing : bool { kValues, kPrinted };
io::Value value_of(const YamlNode& node, Showing showing = Showing::kValues);
// Keys that hold password, secret, token, api_key, authorization and the like.
bool is_secret_key(std::string_view key);
// What stands under such a key, lists and maps as a whole; null gives nothing away.
bool is_secret(std::string_view key, const YamlNode& value);

}  // namespace glmtune::train
