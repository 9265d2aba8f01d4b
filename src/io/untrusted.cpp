#include "io/untrusted.h"

#include <algorithm>

#include "base/cat.h"
#include "io/utf8.h"

namespace glmtune::io {
namespace {

bool is_control(char32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0);
}

}  // namespace

bool is_inside(std::string_view path) {
  if (path.empty() || printable(path) != path) return false;
  while (true) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

std::string printable(std::string_view text, LineEnds line_ends) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto [code, length] = decode_utf8(text, i);
    const std::string_view bytes = text.substr(i, length);
    const bool kept = line_ends == LineEnds::kKeep && (code == '\n' || code == '\t');
    if (kept || (code != kInvalidCode && !is_control(code))) {
      out += bytes;
    } else {
      for (const char c : bytes) {
        const auto u = static_cast<unsigned char>(c);
        out += {'\\', 'x', kHex[u >> 4U], kHex[u & 15U]};
      }
    }
    i += length;
  }
  return out;
}

std::string printable_list(const std::vector<std::string>& names, std::size_t most) {
  std::string out;
  const std::size_t shown = std::min(most, names.size());
  for (std::size_t i = 0; i < shown; ++i) out += cat(i == 0 ? "" : ", ", printable(names[i]));
  if (shown < names.size()) out += cat(" and ", names.size() - shown, " more");
  return out;
}

}  // namespace glmtune::io
