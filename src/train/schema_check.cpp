#include "train/schema_check.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/cat.h"
#include "base/error.h"
#include "train/schema_scalar.h"
#include "train/schema_status.h"
#include "train/schema_value.h"

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

// letters: y and n too, which may be names elsewhere.
bool is_switch_word(std::string text, bool letters) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (letters && (text == "y" || text == "n")) return true;
  return text == "yes" || text == "no" || text == "on" || text == "off";
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
  void report(const KeyRow& row, const YamlNode& node, const std::string& path,
              const io::Value& value, Reporting reporting) {
    if (!reporting.quiet) report_status(row, node, path, value, out_);
  }

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
        if (value.is_null() && of_another_variant(schema, name, variant)) continue;
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
      error(cat(absent ? where : written->where, ": unknown ", path, "._target_ ", text,
                "; known here: ", known_targets(row.values)));
      return false;
    }
    variant = found->name;
    return true;
  }

  // Null leaves such a key out: of a recipe whose _target_ an argument changes.
  static bool of_another_variant(const SchemaNode& schema, const std::string& name,
                                 const std::string& variant) {
    return schema.child(name, variant) == nullptr &&
           std::any_of(schema.children.begin(), schema.children.end(),
                       [&](const SchemaNode::Child& child) { return child.name == name; });
  }

  // The first spelling of the target that a section's variant stands for.
  static std::string target_of(const SchemaNode& schema, const std::string& variant) {
    const SchemaNode* target = schema.child("_target_", "");
    for (const TargetRow& row : schema_targets())
      if (target != nullptr && row.group == target->row->values && row.name == variant)
        return std::string(row.path);
    return variant;
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
      // Who gives a key on the command line wants it; one of the recipe may be in the way.
      const bool is_argument = value.key_where.starts_with("argument ");
      error(cat(message, " of ", variant, " (it is a key of ", list,
                "); nearest: ", nearest(name, names), "; --",
                is_argument ? cat(joined(path, "_target_"), " ",
                                  target_of(schema, child.variants.front()), " takes it")
                            : cat(joined(path, name), " null leaves it out")));
      return;
    }
    std::string elsewhere;
    for (const KeyRow& row : schema_rows()) {
      const std::string plain = without_variants(row.path);
      if (last_part(plain) == name && elsewhere.find(plain) == std::string::npos)
        elsewhere += (elsewhere.empty() ? "" : ", ") + plain;
    }
    // Nobody who leaves the section out means another section.
    if (!path.empty() || elsewhere.empty()) message += "; nearest: " + nearest(name, names);
    if (!elsewhere.empty()) message += "; elsewhere: " + elsewhere;
    error(message);
  }

  // Where quotes around null say something: it is a string there.
  static bool wants_text(const KeyRow& row) {
    switch (row.type) {
      case KeyType::kString:
      case KeyType::kStringOrList:
      case KeyType::kStrings:
      case KeyType::kTarget:
      case KeyType::kTargetOrSection:
      case KeyType::kOpen:
        return true;
      case KeyType::kChoice: {
        const auto list = words(row.values, '|');
        return std::any_of(list.begin(), list.end(),
                           [](std::string_view word) { return word == "none" || word == "!none"; });
      }
      default:
        return false;
    }
  }

  // False when the key counts as absent (null).
  bool key(const SchemaNode& schema, const YamlNode& node, const std::string& path,
           Reporting reporting) {
    const KeyRow& row = *schema.row;
    if (node.is_null() || (node.spells_null() && !wants_text(row))) {
      if (!has_word(row.values, "null")) return false;
      add(row, node, path, nullptr, true);
      return true;
    }
    const bool open = row.type == KeyType::kOpen || row.type == KeyType::kOpenMap;
    const bool section_like = row.type == KeyType::kSection || row.type == KeyType::kSections ||
                              (row.type == KeyType::kTargetOrSection && node.is_map());
    if (section_like || open) {
      const bool wants_map = row.type == KeyType::kSection || row.type == KeyType::kOpenMap;
      if (wants_map && !node.is_map()) {
        error(cat(node.where, ": ", path, " is ", node.describe(), "; expected a map of keys"));
        return true;
      }
      report(row, node, path, {}, reporting);
      const bool speaks = row.status == KeyStatus::kNotYet ||
                          row.status == KeyStatus::kNoCounterpart ||
                          row.status == KeyStatus::kIgnored;
      const Reporting below{reporting.quiet || speaks};
      out_.sections.push_back({path, node.key_where.empty() ? node.where : node.key_where});
      if (open && row.status != KeyStatus::kIgnored) switch_words(row, node, path);
      if (open) {
        add(row, node, path, value_of(node), true);
      } else if (row.type == KeyType::kSections) {
        sections(schema, node, path, below);
      } else {
        section(schema, &node, path, node.where, below);
      }
      return true;
    }
    if (auto value = typed_value(row, node, path, errors_)) {
      report(row, node, path, *value, reporting);
      add(row, node, path, std::move(*value), true);
    }
    return true;
  }

  // Where nothing says the type: words that PyYAML, for which recipes are written, takes for true
  // and false are text here; and so is what quotes make text, of which a template takes all for
  // true.
  void switch_words(const KeyRow& row, const YamlNode& node, const std::string& path) {
    for (std::size_t i = 0; i < node.items.size(); ++i)
      switch_words(row, node.items[i], cat(path, "[", i, "]"));
    for (const auto& [name, value] : node.members) switch_words(row, value, joined(path, name));
    if (!node.is_scalar()) return;
    const bool of_template = row.path.ends_with(".chat_template_kwargs");
    if (of_template && node.quoted && bool_from_text(node.text))
      out_.warnings.push_back(cat(node.where, ": ", path, " is the text '", node.text,
                                  "', and a template takes any text for true; remove the quotes"));
    if (node.quoted || !is_switch_word(node.text, of_template)) return;
    error(cat(node.where, ": ", path, " is the word ", node.text,
              "; write true or false, or quote it where text is meant"));
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
                variant.empty() ? "" : " (" + variant + ")", " needs the key ", name,
                dot == std::string::npos ? "" : " (" + path + ")", ": ", row.doc));
      return;
    }
    if (row.type == KeyType::kSection) {
      if (row.fallback == "{}") section(schema, nullptr, path, where, {.quiet = true});
      return;
    }
    if (row.fallback.empty() || row.fallback == "null") return;
    const YamlNode node = parse_argument_value(std::string(row.fallback), "schema");
    const bool open = row.type == KeyType::kOpen || row.type == KeyType::kOpenMap;
    auto value = open ? value_of(node) : typed_value(row, node, path, errors_);
    if (value) add(row, node, path, std::move(*value), false);
  }

  void add(const KeyRow& row, const YamlNode& node, const std::string& path, io::Value value,
           bool from_recipe) {
    io::Value shown = value;
    if (row.type == KeyType::kOpen || row.type == KeyType::kOpenMap) {
      shown = value_of(node, Showing::kPrinted);
    } else if (is_secret(last_part(path), node)) {
      shown = kHiddenSecret;
    } else if (node.unexpanded) {
      shown = without_userinfo(*node.unexpanded);
    } else if (shown.is_string()) {
      shown = without_userinfo(shown.as_string());
    }
    out_.keys.push_back({path, &row, std::move(value), std::move(shown), from_recipe, node.where});
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

CheckedKey* CheckedDocument::find(std::string_view path) {
  return const_cast<CheckedKey*>(std::as_const(*this).find(path));
}

const CheckedSection* CheckedDocument::section(std::string_view path) const {
  for (const CheckedSection& section : sections)
    if (section.path == path) return &section;
  return nullptr;
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
