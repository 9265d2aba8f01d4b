// libFuzzer: [tokenizer.json] 0 [text]. Any bytes as a tokenizer end in a Tokenizer or in an Error;
// any text, valid UTF-8 or not, comes back from encoding and decoding. Without the first part the
// text meets a tokenizer that has all bytes.
#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "io/utf8.h"
#include "support/small_tokenizer.h"
#include "text/tokenizer.h"

using namespace glmtune;

namespace {

void round_trip(const text::Tokenizer& tokenizer, std::string_view text, bool same_text) {
  for (const bool match : {false, true}) {
    const text::Encoding e = tokenizer.encode(text, {.match_added_tokens = match});
    if (e.ids.size() != e.offsets.size()) __builtin_trap();
    for (const text::ByteRange& r : e.offsets) {
      if (r.begin > r.end || r.end > text.size()) __builtin_trap();
    }
    const std::string decoded = tokenizer.decode(e.ids);
    if (same_text && decoded != io::replace_invalid_utf8(text)) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const text::Tokenizer small = text::SmallTokenizer{}.build();
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t zero = std::min(input.find('\0'), size);
  const std::string_view text = input.substr(std::min(zero + 1, size));
  if (zero == 0) {
    round_trip(small, text, true);
    return 0;
  }
  try {
    const auto tokenizer = text::Tokenizer::parse(input.substr(0, zero), "", "fuzz");
    for (std::int32_t id = 0; id < std::min(tokenizer.vocab_size(), 1000); ++id) {
      try {
        (void)tokenizer.token_bytes(id);
      } catch (const Error&) {
      }
    }
    round_trip(tokenizer, text, false);
  } catch (const MachineError&) {
    __builtin_trap();
  } catch (const Error&) {
  }
  return 0;
}
