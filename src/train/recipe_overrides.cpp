#include "train/recipe_overrides.h"

#include "base/cat.h"
#include "base/error.h"
#include "train/schema_scalar.h"

namespace glmtune::train {
namespace {

bool is_option(std::string_view word) {
  return word.starts_with("--");
}

// The value stays out of messages: it may be a secret.
std::string where_of(std::string_view path) {
  return cat("argument --", path);
}

void check_path(const std::string& path) {
  const bool holes = path.empty() || path.front() == '.' || path.back() == '.' ||
                     path.find("..") != std::string::npos;
  if (holes || path.find_first_of(" \t\n") != std::string::npos)
    fail(cat("argument --", path, ": expected --section.key=value, a dotted key of the recipe"));
}

// Of a dotted path: keys may have dots themselves (validation_dataset.math), so the longest one
// that is there, else the part up to the first dot.
std::string first_key(const YamlNode& node, std::string_view path) {
  for (std::size_t end = path.size(); end != std::string_view::npos && end > 0;
       end = path.rfind('.', end - 1)) {
    if (node.find(path.substr(0, end)) != nullptr) return std::string(path.substr(0, end));
  }
  return std::string(path.substr(0, path.find('.')));
}

void set(YamlNode& root, const Override& setting) {
  YamlNode* node = &root;
  std::string_view rest = setting.path;
  std::string done;
  while (true) {
    const std::string name = first_key(*node, rest);
    done += (done.empty() ? "" : ".") + name;
    YamlNode* next = node->find(name);
    if (name.size() == rest.size()) {
      if (next != nullptr) {
        *next = setting.value;
      } else {
        node->members.emplace_back(name, setting.value);
      }
      return;
    }
    if (next == nullptr) {
      node->members.emplace_back(name, YamlNode{});
      next = &node->members.back().second;
      next->where = next->key_where = setting.value.where;
    }
    if (next->is_null()) {
      next->kind = YamlNode::Kind::kMap;
      next->text.clear();
    }
    if (!next->is_map())
      fail(cat(setting.value.where, ": ", done, " is ",
               is_secret(name, *next) ? kHiddenSecret : next->describe(), " (", next->where,
               "), not a map that could hold a key"));
    node = next;
    rest = rest.substr(name.size() + 1);
  }
}

}  // namespace

Overrides parse_overrides(std::span<const std::string> arguments) {
  Overrides out;
  bool behind_secret = false;  // a word here may be the rest of a secret with a space in it
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (!is_option(word))
      fail(cat("argument ", behind_secret ? kHiddenSecret : without_userinfo(word),
               " is neither a setting nor the value of one; settings are written "
               "--section.key=value"));
    const std::size_t equals = word.find('=');
    const std::string path =
        word.substr(2, equals == std::string::npos ? std::string::npos : equals - 2);
    check_path(path);
    std::string value = "true";
    bool implied = false;
    if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (i + 1 < arguments.size() && !is_option(arguments[i + 1])) {
      value = arguments[++i];
    } else {
      implied = true;
    }
    if (value.empty())
      fail(cat(where_of(path), ": the value is empty, as that of a variable that is not set; null ",
               "means the default, '\"\"' an empty string"));
    behind_secret = is_secret_key(path.substr(path.rfind('.') + 1));
    out.settings.push_back({path, parse_argument_value(value, where_of(path))});
    out.settings.back().value.implied = implied;
  }
  return out;
}

void apply_overrides(YamlNode& root, const Overrides& overrides) {
  for (const Override& setting : overrides.settings) set(root, setting);
}

}  // namespace glmtune::train
