#include "train/yaml_emit.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/cat.h"
#include "train/schema_scalar.h"

namespace glmtune::train {
namespace {

bool plain_is_safe(const std::string& s) {
  if (s.empty() || s.back() == ' ' || s.back() == ':') return false;
  if (std::isalnum(static_cast<unsigned char>(s.front())) == 0 && s.front() != '/' &&
      s.front() != '.' && s.front() != '_' && s.front() != '$' &&
      !(s.front() == '-' && s.size() > 1 && s[1] != ' '))
    return false;
  if (s.find(": ") != std::string::npos || s.find(" #") != std::string::npos) return false;
  return std::none_of(s.begin(), s.end(), [](unsigned char c) {
    return c < 0x20 || c == 0x7F || c == '[' || c == ']' || c == '{' || c == '}' || c == ',';
  });
}

std::string quoted(const std::string& s) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out = "\"";
  for (const char c : s) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7F) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string scalar(const YamlNode& node) {
  const std::string text = without_userinfo(node.unexpanded ? *node.unexpanded : node.text);
  if (node.is_null()) return "null";
  return !node.quoted && plain_is_safe(text) ? text : quoted(text);
}

// Nothing but a reference: $NAME or ${NAME}. A default in it, or text around it, may be the secret.
bool names_a_variable(const YamlNode& node) {
  if (!node.unexpanded) return false;
  std::string_view name = *node.unexpanded;
  if (!name.starts_with('$')) return false;
  name.remove_prefix(1);
  if (name.starts_with('{') && name.ends_with('}')) name = name.substr(1, name.size() - 2);
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.' || c == ':';
  });
}

void emit(const YamlNode& node, int indent, std::string& out);

void emit_value(const YamlNode& node, int indent, std::string& out) {
  const bool empty_map = node.is_map() && node.members.empty();
  const bool empty_list = node.is_list() && node.items.empty();
  if (node.is_scalar() || empty_map || empty_list) {
    out += ' ';
    out += node.is_scalar() ? scalar(node) : empty_map ? "{}" : "[]";
    out += '\n';
    return;
  }
  out += '\n';
  emit(node, indent, out);
}

void emit(const YamlNode& node, int indent, std::string& out) {
  const std::string margin(static_cast<std::size_t>(indent), ' ');
  for (const YamlNode& item : node.items) {
    out += margin + "-";
    emit_value(item, indent + 2, out);
  }
  for (const auto& [key, value] : node.members) {
    out += margin + (plain_is_safe(key) ? key : quoted(key)) + ":";
    if (is_secret(key, value) && !names_a_variable(value)) {
      out += cat(" \"", kHiddenSecret, "\"\n");
    } else {
      emit_value(value, indent + 2, out);
    }
  }
}

}  // namespace

std::string yaml_text(const YamlNode& root) {
  std::string out;
  emit(root, 0, out);
  return out;
}

}  // namespace glmtune::train
