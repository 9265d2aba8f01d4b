#include <algorithm>
#include <cstdio>

#include "base/cat.h"
#include "data/preview.h"
#include "io/untrusted.h"
#include "text/tokenizer.h"

namespace glmtune::data {
namespace {

constexpr std::string_view kGreen = "\x1b[32m";
constexpr std::string_view kReset = "\x1b[0m";

// In quotes, on one line: control characters and bytes of characters that several tokens share are
// escapes.
std::string quoted(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return cat('"', io::printable(out), '"');
}

std::string line(const std::string& position, std::int32_t id, bool target,
                 const text::Tokenizer* tokenizer, bool color) {
  char head[64];
  std::snprintf(head, sizeof head, "%8s %8d  %c", position.c_str(), id, target ? '+' : ' ');
  std::string out = head;
  if (tokenizer != nullptr && id >= 0 && id < tokenizer->vocab_size())
    out += "  " + quoted(tokenizer->token_bytes(id));
  else if (tokenizer != nullptr)
    out += "  (no token of the tokenizer)";
  return color && target ? cat(kGreen, out, kReset, "\n") : out + "\n";
}

}  // namespace

std::string preview_tokens(const Pack& pack, std::int64_t document,
                           const text::Tokenizer* tokenizer, const PreviewOptions& options) {
  const auto d = static_cast<std::size_t>(document);
  const auto begin = static_cast<std::size_t>(pack.bounds[d]);
  const auto end = static_cast<std::size_t>(pack.bounds[d + 1]);
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(1, options.max_tokens));
  const std::size_t shown = std::min(end, begin + most);
  std::string out;
  for (std::size_t t = begin; t < shown; ++t)
    out += line(cat(t - begin), pack.ids[t], t > begin && pack.labels[t - 1] != kNoLabel, tokenizer,
                options.color);
  if (shown < end) return out + cat("... and ", end - shown, " tokens more\n");
  // The stop that is a label only has no position of its own.
  if (pack.labels[end - 1] != kNoLabel)
    out += line("then", pack.labels[end - 1], true, tokenizer, options.color);
  return out;
}

}  // namespace glmtune::data
