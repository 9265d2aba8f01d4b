#pragma once
// NFC normalization (Qwen's tokenizers ask for it), equal to the official library's, whose data
// are those of an older Unicode.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace glmtune::text {

// text with, for every part that normalization rewrote, where it lies in source and result.
struct Normalized {
  struct Change {
    std::size_t begin, end;                // in the result
    std::size_t source_begin, source_end;  // in the source
  };
  std::string text;
  std::vector<Change> changes;  // in order

  // The source bytes that a range of the result was made from.
  std::size_t source_begin(std::size_t begin) const;
  std::size_t source_end(std::size_t end) const;
};

// True, quickly, for texts that are certainly in NFC (all ASCII, Latin-1, CJK, Hangul syllables).
bool is_surely_nfc(std::string_view text);
Normalized normalize_nfc(std::string_view text);

}  // namespace glmtune::text
