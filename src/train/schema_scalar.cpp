#include "train/schema_scalar.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "train/schema.h"

namespace glmtune::train {
namespace {

bool digits(std::string_view s) {
  return !s.empty() &&
         std::all_of(s.begin(), s.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::optional<std::int64_t> based_int(std::string_view s, int base) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value, base);
  if (error != std::errc() || end != s.data() + s.size() || s.empty()) return std::nullopt;
  return value;
}

io::Value plain_value(const std::string& text) {
  if (auto b = bool_from_text(text)) return *b;
  const bool fraction = text.find_first_of(".eE") != std::string::npos && !text.starts_with("0x");
  if (!fraction)
    if (auto i = int_from_text(text)) return *i;
  if (auto d = number_from_text(text)) return *d;
  return text;
}

}  // namespace

// [-+]? (digits [. digits?] | . digits) ([eE] [-+]? digits)?
bool is_number(std::string_view s) {
  if (!s.empty() && (s.front() == '-' || s.front() == '+')) s.remove_prefix(1);
  const std::size_t e = s.find_first_of("eE");
  if (e != std::string_view::npos) {
    std::string_view exponent = s.substr(e + 1);
    if (!exponent.empty() && (exponent.front() == '-' || exponent.front() == '+'))
      exponent.remove_prefix(1);
    if (!digits(exponent)) return false;
    s = s.substr(0, e);
  }
  const std::size_t point = s.find('.');
  if (point == std::string_view::npos) return digits(s);
  const std::string_view whole = s.substr(0, point), fraction = s.substr(point + 1);
  if (whole.empty() && fraction.empty()) return false;
  return (whole.empty() || digits(whole)) && (fraction.empty() || digits(fraction));
}

std::optional<bool> bool_from_text(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return std::nullopt;
}

std::optional<double> number_from_text(std::string_view text) {
  std::string_view unsigned_text = text;
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) unsigned_text.remove_prefix(1);
  if (unsigned_text == ".inf" || unsigned_text == ".Inf" || unsigned_text == ".INF") {
    const double inf = std::numeric_limits<double>::infinity();
    return negative ? -inf : inf;
  }
  if (!is_number(text)) return std::nullopt;
  double value = 0;
  const auto [end, error] =
      std::from_chars(unsigned_text.data(), unsigned_text.data() + unsigned_text.size(), value);
  if (error == std::errc::result_out_of_range) return std::nullopt;
  if (error != std::errc() || end != unsigned_text.data() + unsigned_text.size())
    return std::nullopt;
  return negative ? -value : value;
}

std::optional<std::int64_t> int_from_text(std::string_view text) {
  if (text.starts_with("0x")) return based_int(text.substr(2), 16);
  if (text.starts_with("0o")) return based_int(text.substr(2), 8);
  if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  if (auto i = based_int(text, 10)) return i;
  const auto number = number_from_text(text);
  if (!number || std::trunc(*number) != *number || std::abs(*number) > 9.007199254740992e15)
    return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

std::string_view dtype_name_from_text(std::string_view text) {
  static constexpr std::string_view kTorch = "torch.";
  if (text.starts_with(kTorch)) text.remove_prefix(kTorch.size());
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kNames{{
      {"float32", "float32"},
      {"fp32", "float32"},
      {"f32", "float32"},
      {"float", "float32"},
      {"bfloat16", "bfloat16"},
      {"bf16", "bfloat16"},
      {"float64", "float64"},
      {"fp64", "float64"},
      {"f64", "float64"},
      {"double", "float64"},
      {"float16", "float16"},
      {"fp16", "float16"},
      {"half", "float16"},
      {"f16", "float16"},
  }};
  for (const auto& [spelling, name] : kNames)
    if (text == spelling) return name;
  return {};
}

std::optional<DType> dtype_from_text(std::string_view text) {
  const std::string_view name = dtype_name_from_text(text);
  if (name == "float32") return DType::kF32;
  if (name == "bfloat16") return DType::kBF16;
  if (name == "float64") return DType::kF64;
  if (name == "float16") return DType::kF16;
  return std::nullopt;
}

bool is_secret_key(std::string_view key) {
  std::string lower(key);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto holds = [&](std::string_view word) { return lower.find(word) != std::string::npos; };
  for (const std::string_view word : {"api_key", "private_key", "access_key"})
    if (holds(word)) return true;
  // Keys of the recipe language that only sound like it: allow_control_tokens and the like.
  for (const KeyRow& row : schema_rows())
    if (row.path.ends_with(key) && row.path.size() > key.size() &&
        row.path[row.path.size() - key.size() - 1] == '.')
      return false;
  for (const std::string_view word : {"password", "passwd", "passphrase", "secret", "token",
                                      "apikey", "credential", "authorization", "auth", "wandb_key"})
    if (holds(word)) return true;
  return false;
}

bool is_secret(std::string_view key, const YamlNode& value) {
  return !value.is_null() && is_secret_key(key);
}

io::Value value_of(const YamlNode& node, Showing showing) {
  if (node.is_list()) {
    io::Value::Array array;
    for (const YamlNode& item : node.items) array.push_back(value_of(item, showing));
    return array;
  }
  if (node.is_map()) {
    io::Value::Object object;
    for (const auto& [key, value] : node.members) {
      const bool hide = showing == Showing::kPrinted && is_secret(key, value);
      object.emplace_back(key, hide ? io::Value(kHiddenSecret) : value_of(value, showing));
    }
    return object;
  }
  if (showing == Showing::kPrinted && node.unexpanded) return without_userinfo(*node.unexpanded);
  if (node.is_null()) return nullptr;
  const std::string text = showing == Showing::kPrinted ? without_userinfo(node.text) : node.text;
  return node.quoted ? io::Value(text) : plain_value(text);
}

}  // namespace glmtune::train
