#include "text/stream_decoder.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "io/utf8.h"

namespace glmtune::text {
namespace {

// Bytes at the end that begin a character whose rest is missing.
std::size_t unfinished_utf8(std::string_view bytes) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, bytes.size()); ++back) {
    const auto c = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if (c < 0x80) return 0;
    if (c < 0xC0) continue;
    const std::size_t length = c >= 0xF0 ? 4U : c >= 0xE0 ? 3U : 2U;
    return length > back ? back : 0;
  }
  return 0;
}

}  // namespace

std::string StreamDecoder::push(std::int32_t id) {
  const AddedToken* added = tokenizer_.added_token(id);
  if (options_.skip_special_tokens && added != nullptr && added->special) return "";
  held_ += tokenizer_.token_bytes(id);
  const std::size_t keep = unfinished_utf8(held_);
  std::string text =
      io::replace_invalid_utf8(std::string_view(held_).substr(0, held_.size() - keep));
  held_.erase(0, held_.size() - keep);
  return text;
}

std::string StreamDecoder::finish() {
  return io::replace_invalid_utf8(std::exchange(held_, {}));
}

}  // namespace glmtune::text
