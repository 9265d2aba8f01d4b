#include "train/schema_check.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/cat.h"
#include "base/error.h"
#include "train/schema_scalar.h"

namespace glmtune::train {
namespace {

constexpr std::size_t kMaxErrors = 20;

std::string joined(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

std::string_view last_part(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

// "dataset(ChatDataset|HellaSwag).split" as "dataset.split".
std::string without_variants(std::string_view path) {
  std::string out;
  int depth = 0;
  for (const char c : path) {
    if (c == '(') ++depth;
    if (depth == 0) out += c;
    if (c == ')') --depth;
  }
  return out;
}

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

// How a value reads in a list or message.
std::string text_of(const io::Value& value) {
  return value.is_string() ? value.as_string() : io::to_json(value);
}

class Checker {
 public:
  explicit Checker(const std::string& file) : file_(file) {}

  CheckedDocument run(const YamlNode& root) {
    section(schema_tree(), &root, "", "", {});
    if (errors_.empty()) return std::move(out_);
    std::string message;
    for (std::size_t i = 0; i < std::min(errors_.size(), kMaxErrors); ++i)
      message += (i == 0 ? "" : "\n") + errors_[i];
    if (errors_.size() > kMaxErrors)
      message += cat("\n... and ", errors_.size() - kMaxErrors, " more");
    fail(message);
  }

 private:
  struct Reporting {
    bool quiet = false;  // an enclosing section already speaks for these keys
  };

  void error(const std::string& message) { errors_.push_back(message); }

  // yaml is null where the section is absent and its fallbacks hold.
  void section(const SchemaNode& schema, const YamlNode* yaml, const std::string& path,
               const std::string& where, Reporting reporting) {
    std::string variant;
    if (!find_variant(schema, yaml, path, where, variant)) return;
    std::vector<std::string> seen;
    if (yaml != nullptr) {
      for (const auto& [name, value] : yaml->members) {
        const std::string section_name(path.empty() ? schema_section(name) : name);
        const SchemaNode* child = schema.child(section_name, variant);
        if (child == nullptr || child->row == nullptr) {
          unknown_key(schema, value, path, name, variant);
        } else if (key(*child, value, joined(path, name), reporting)) {
          seen.push_back(name);
          if (path.empty()) out_.top_level.push_back(name);
        }
      }
    }
    for (const std::string& name : schema.child_names(variant)) {
      if (std::find(seen.begin(), seen.end(), name) == seen.end())
        fallback(*schema.child(name, variant), joined(path, name), variant, where);
    }
  }

  // False when the _target_ is missing or unknown: nothing else can be said about the section.
  bool find_variant(const SchemaNode& schema, const YamlNode* yaml, const std::string& path,
                    const std::string& where, std::string& variant) {
    const SchemaNode* target = schema.child("_target_", "");
    if (path.empty() || target == nullptr || target->row->type != KeyType::kTarget) return true;
    const KeyRow& row = *target->row;
    const YamlNode* written = yaml == nullptr ? nullptr : yaml->find("_target_");
    const bool absent = written == nullptr || written->is_null();
    if (absent && row.fallback == "required") {
      error(cat(where, ": ", path, " needs _target_; known here: ", known_targets(row.values)));
      return false;
    }
    if (!absent && !written->is_scalar()) {
      error(cat(written->where, ": ", path, "._target_ is ", written->describe(),
                "; expected one of: ", known_targets(row.values)));
      return false;
    }
    const std::string text = absent ? std::string(row.fallback) : written->text;
    if (text.empty()) return true;
    const TargetRow* found = find_target(row.values, text);
    if (found == nullptr) {
      error(cat(written->where, ": unknown ", path, "._target_ ", text,
                "; known here: ", known_targets(row.values)));
      return false;
    }
    variant = found->name;
    return true;
  }

  void unknown_key(const SchemaNode& schema, const YamlNode& value, const std::string& path,
                   const std::string& name, const std::string& variant) {
    const std::vector<std::string> names = schema.child_names(variant);
    misspelt_.push_back(joined(path, nearest(name, names)));
    std::string message = cat(value.key_where, ": unknown key ", joined(path, name));
    if (path.empty() && name == "slurm") {
      error(message + "; start glmtune from an sbatch script instead: srun glmtune RECIPE.yaml");
      return;
    }
    for (const SchemaNode::Child& child : schema.children) {
      if (child.name != name || child.variants.empty()) continue;
      std::string list;
      for (const std::string& v : child.variants) list += (list.empty() ? "" : " and ") + v;
      error(cat(message, " of ", variant, " (it is a key of ", list,
                "); nearest: ", nearest(name, names)));
      return;
    }
    message += "; nearest: " + nearest(name, names);
    std::string elsewhere;
    for (const KeyRow& row : schema_rows()) {
      const std::string plain = without_variants(row.path);
      if (last_part(plain) == name && elsewhere.find(plain) == std::string::npos)
        elsewhere += (elsewhere.empty() ? "" : ", ") + plain;
    }
    if (!elsewhere.empty()) message += "; elsewhere: " + elsewhere;
    error(message);
  }

  // False when the key counts as absent (null).
  bool key(const SchemaNode& schema, const YamlNode& node, const std::string& path,
           Reporting reporting) {
    const KeyRow& row = *schema.row;
    if (node.is_null()) {
      if (!has_word(row.values, "null")) return false;
      add(row, node, path, nullptr, true);
      return true;
    }
    const bool section_like = row.type == KeyType::kSection || row.type == KeyType::kSections ||
                              (row.type == KeyType::kTargetOrSection && node.is_map());
    if (section_like || row.type == KeyType::kOpen) {
      if (row.type == KeyType::kSection && !node.is_map()) {
        error(cat(node.where, ": ", path, " is ", node.describe(), "; expected a map of keys"));
        return true;
      }
      report(row, node, path, {}, reporting);
      const bool speaks = row.status == KeyStatus::kNotYet ||
                          row.status == KeyStatus::kNoCounterpart ||
                          row.status == KeyStatus::kIgnored;
      const Reporting below{reporting.quiet || speaks};
      out_.sections.push_back(path);
      if (row.type == KeyType::kOpen) {
        add(row, node, path, value_of(node), true);
      } else if (row.type == KeyType::kSections) {
        sections(schema, node, path, below);
      } else {
        section(schema, &node, path, node.where, below);
      }
      return true;
    }
    if (auto value = typed(row, node, path)) {
      report(row, node, path, *value, reporting);
      add(row, node, path, std::move(*value), true);
    }
    return true;
  }

  void sections(const SchemaNode& schema, const YamlNode& node, const std::string& path,
                Reporting reporting) {
    if (!node.is_list()) {
      error(cat(node.where, ": ", path, " is ", node.describe(), "; expected a list of maps"));
      return;
    }
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const YamlNode& item = node.items[i];
      const std::string item_path = cat(path, "[", i, "]");
      if (item.is_map()) {
        section(schema, &item, item_path, item.where, reporting);
      } else {
        error(
            cat(item.where, ": ", item_path, " is ", item.describe(), "; expected a map of keys"));
      }
    }
  }

  void fallback(const SchemaNode& schema, const std::string& path, const std::string& variant,
                const std::string& where) {
    const KeyRow& row = *schema.row;
    if (row.fallback == "required") {
      // It is there under another name, which has been complained about.
      if (std::find(misspelt_.begin(), misspelt_.end(), path) != misspelt_.end()) return;
      const std::size_t dot = path.rfind('.');
      const std::string name(last_part(path));
      error(cat(where.empty() ? file_ : where, ": ",
                dot == std::string::npos ? "the recipe" : path.substr(0, dot),
                variant.empty() ? "" : " (" + variant + ")", " needs the key ", name, ": ",
                row.doc));
      return;
    }
    if (row.type == KeyType::kSection) {
      if (row.fallback == "{}") section(schema, nullptr, path, where, {.quiet = true});
      return;
    }
    if (row.fallback.empty() || row.fallback == "null") return;
    const YamlNode node = parse_argument_value(std::string(row.fallback), "schema");
    auto value = row.type == KeyType::kOpen ? value_of(node) : typed(row, node, path);
    if (value) add(row, node, path, std::move(*value), false);
  }

  void add(const KeyRow& row, const YamlNode& node, const std::string& path, io::Value value,
           bool from_recipe) {
    io::Value shown = value;
    if (row.type == KeyType::kOpen) {
      shown = value_of(node, Showing::kPrinted);
    } else if (node.is_scalar() && !node.is_null() && is_secret_key(last_part(path))) {
      shown = kHiddenSecret;
    } else if (node.unexpanded) {
      shown = *node.unexpanded;
    }
    out_.keys.push_back({path, &row, std::move(value), std::move(shown), from_recipe, node.where});
  }

  // ---- types ---------------------------------------------------------------------------------

  std::optional<io::Value> wrong(const YamlNode& node, const std::string& path,
                                 const std::string& expected) {
    error(node.implied
              ? cat(node.where, ": a value is missing; expected ", expected)
              : cat(node.where, ": ", path, " is ", node.describe(), "; expected ", expected));
    return std::nullopt;
  }

  std::optional<io::Value> typed(const KeyRow& row, const YamlNode& node, const std::string& path) {
    const bool text = row.type == KeyType::kString || row.type == KeyType::kStringOrList ||
                      row.type == KeyType::kTarget || row.type == KeyType::kTargetOrSection;
    if (node.implied && text) return wrong(node, path, cat("--", path, "=TEXT"));
    switch (row.type) {
      case KeyType::kBool:
        if (node.is_scalar())
          if (auto b = bool_from_text(node.text)) return *b;
        return wrong(node, path, "true or false");
      case KeyType::kInt:
      case KeyType::kNumber:
        return number(row, node, path);
      case KeyType::kString:
        if (node.is_scalar()) return node.text;
        return wrong(node, path, "a string");
      case KeyType::kChoice:
        return choice(row, node, path);
      case KeyType::kDtype:
        return dtype(row, node, path);
      case KeyType::kTarget:
      case KeyType::kTargetOrSection:
        return target(row, node, path);
      case KeyType::kStringOrList:
        if (node.is_scalar()) return node.text;
        return strings(node, path, "a string or a list of strings");
      case KeyType::kStrings:
        return strings(node, path, "a list of strings");
      case KeyType::kInts:
      case KeyType::kNumbers:
        return numbers(row, node, path);
      default:
        fail(cat("schema: ", path, " has no scalar type"));
    }
  }

  std::optional<io::Value> number(const KeyRow& row, const YamlNode& node,
                                  const std::string& path) {
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
    const double low = bound == ">=1" ? 1 : 0;
    const bool bounded = !bound.empty();
    if (!value || (std::isinf(*value) && !may_be_inf) || (bounded && *value < low) ||
        (bound == ">0" && *value == 0))
      return wrong(node, path, expected);
    return whole ? io::Value(*integer) : io::Value(*value);
  }

  std::optional<io::Value> numbers(const KeyRow& row, const YamlNode& node,
                                   const std::string& path) {
    if (!node.is_list()) return wrong(node, path, "a list of numbers");
    io::Value::Array array;
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      auto value = number(row, node.items[i], cat(path, "[", i, "]"));
      if (!value) return std::nullopt;
      array.push_back(std::move(*value));
    }
    return io::Value(std::move(array));
  }

  std::optional<io::Value> strings(const YamlNode& node, const std::string& path,
                                   const std::string& expected) {
    if (!node.is_list()) return wrong(node, path, expected);
    io::Value::Array array;
    for (const YamlNode& item : node.items) {
      if (!item.is_scalar()) return wrong(item, path, expected);
      array.emplace_back(item.text);
    }
    return io::Value(std::move(array));
  }

  std::optional<io::Value> choice(const KeyRow& row, const YamlNode& node,
                                  const std::string& path) {
    std::string text = node.text;
    if (auto b = bool_from_text(text)) text = *b ? "true" : "false";
    std::string list;
    for (std::string_view word : words(row.values, '|')) {
      if (word.starts_with('!')) word.remove_prefix(1);
      if (node.is_scalar() && word == text) return io::Value(text);
      list += cat(list.empty() ? "" : ", ", word);
    }
    return wrong(node, path, "one of: " + list);
  }

  std::optional<io::Value> dtype(const KeyRow& row, const YamlNode& node, const std::string& path) {
    static_cast<void>(row);
    if (node.is_scalar() && (node.text == "auto" || !dtype_name_from_text(node.text).empty()))
      return io::Value(node.text);
    return wrong(node, path, "a type: bfloat16, float32, float64, float16");
  }

  std::optional<io::Value> target(const KeyRow& row, const YamlNode& node,
                                  const std::string& path) {
    if (node.is_scalar() && find_target(row.values, node.text) != nullptr)
      return io::Value(node.text);
    error(cat(node.where, ": unknown ", path, " ", node.describe(),
              "; known here: ", known_targets(row.values)));
    return std::nullopt;
  }

  // ---- what runs -----------------------------------------------------------------------------

  void report(const KeyRow& row, const YamlNode& node, const std::string& path,
              const io::Value& value, Reporting reporting) {
    if (reporting.quiet) return;
    if (row.type == KeyType::kTarget || row.type == KeyType::kTargetOrSection) {
      if (const TargetRow* found = node.is_scalar() ? find_target(row.values, node.text) : nullptr;
          found != nullptr && !found->runs)
        out_.not_runnable.push_back(cat(path, " ", node.text));
    }
    if (row.type == KeyType::kChoice || row.type == KeyType::kDtype)
      report_choice(row, path, value.as_string());
    if (row.status == KeyStatus::kNoCounterpart) out_.no_counterpart.push_back(path);
    const bool off = same_as_fallback(row, value);
    if (row.status == KeyStatus::kIgnored && !off)
      out_.warnings.push_back(cat(node.key_where.empty() ? node.where : node.key_where, ": ", path,
                                  " is ignored: ", row.doc));
    if (row.status != KeyStatus::kNotYet || off) return;
    const bool is_section = row.type == KeyType::kSection || row.type == KeyType::kOpen;
    out_.not_runnable.push_back(is_section ? path : cat(path, " ", text_of(value)));
  }

  void report_choice(const KeyRow& row, const std::string& path, const std::string& text) {
    const std::string_view canonical =
        row.type == KeyType::kDtype ? dtype_name_from_text(text) : std::string_view(text);
    std::string runs;
    bool runs_not = false;
    for (std::string_view word : words(row.values, '|')) {
      const bool later = word.starts_with('!');
      if (later) word.remove_prefix(1);
      if (later && word == canonical) runs_not = true;
      if (!later) runs += cat(runs.empty() ? "" : ", ", word);
    }
    if (runs_not) out_.not_runnable.push_back(cat(path, " ", text, " (", runs, " run)"));
  }

  static bool same_as_fallback(const KeyRow& row, const io::Value& value) {
    if (row.type == KeyType::kBool)
      return value.as_bool() == bool_from_text(row.fallback).value_or(!value.as_bool());
    if (row.type == KeyType::kInt || row.type == KeyType::kNumber) {
      // Sizes whose fallback is null are off at 1.
      const double off = number_from_text(row.fallback).value_or(1);
      return value.as_double() == off;
    }
    return false;
  }

  const std::string& file_;
  CheckedDocument out_;
  std::vector<std::string> errors_;
  std::vector<std::string> misspelt_;  // paths of the keys nearest to the unknown ones
};

}  // namespace

const CheckedKey* CheckedDocument::find(std::string_view path) const {
  for (const CheckedKey& key : keys)
    if (key.path == path) return &key;
  return nullptr;
}

bool CheckedDocument::has_section(std::string_view path) const {
  return std::find(sections.begin(), sections.end(), path) != sections.end();
}

std::string_view CheckedDocument::variant(std::string_view section) const {
  const CheckedKey* key = find(cat(section, "._target_"));
  if (key == nullptr) return {};
  const TargetRow* target = find_target(key->row->values, key->value.as_string());
  return target == nullptr ? std::string_view{} : target->name;
}

CheckedDocument check_document(const YamlNode& root, const std::string& file) {
  return Checker(file).run(root);
}

}  // namespace glmtune::train
