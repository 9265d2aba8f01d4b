#include <cctype>

#include "base/cat.h"
#include "base/error.h"
#include "train/yaml_document.h"

namespace glmtune::train {
namespace {

bool name_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

std::string trimmed(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return std::string(s);
}

struct Expansion {
  const Environment& environment;
  const std::string& where;

  std::string value(const std::string& name, const std::optional<std::string>& otherwise) const {
    if (auto found = environment(name)) return *found;
    if (otherwise) return *otherwise;
    fail(cat(where, ": the environment variable ", name, " is not set; set it, or write ${", name,
             ",default}"));
  }
  // Inside of ${...}.
  std::string braced(std::string_view body) const {
    static constexpr std::string_view kResolver = "oc.env:";
    if (body.starts_with(kResolver)) body.remove_prefix(kResolver.size());
    const std::size_t comma = body.find(',');
    const std::string name = trimmed(body.substr(0, comma));
    if (name.empty() || !name_start(name.front()))
      fail(cat(where, ": ${", body, "} names no environment variable"));
    std::optional<std::string> otherwise;
    if (comma != std::string_view::npos) otherwise = trimmed(body.substr(comma + 1));
    return value(name, otherwise);
  }
};

std::string expand(std::string_view text, const Expansion& expansion) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] != '$' || i + 1 == text.size()) {
      out += text[i++];
      continue;
    }
    if (text[i + 1] == '{') {
      const std::size_t end = text.find('}', i);
      if (end == std::string_view::npos) fail(cat(expansion.where, ": ${ without }"));
      out += expansion.braced(text.substr(i + 2, end - i - 2));
      i = end + 1;
    } else if (name_start(text[i + 1])) {
      std::size_t end = i + 1;
      while (end < text.size() && name_char(text[end])) ++end;
      while (text[end - 1] == '.') --end;  // a full stop after the name
      out += expansion.value(std::string(text.substr(i + 1, end - i - 1)), std::nullopt);
      i = end;
    } else {
      out += text[i++];
    }
  }
  return out;
}

}  // namespace

void interpolate(YamlNode& node, const Environment& environment) {
  for (YamlNode& item : node.items) interpolate(item, environment);
  for (YamlNode::Member& member : node.members) interpolate(member.second, environment);
  if (!node.is_scalar() || node.text.find('$') == std::string::npos) return;
  std::string expanded = expand(node.text, {environment, node.where});
  if (expanded == node.text) return;
  node.unexpanded = std::move(node.text);
  node.text = std::move(expanded);
}

}  // namespace glmtune::train
