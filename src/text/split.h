#pragma once
// Splitting text into the words BPE runs on: hand-written scanners of the split regexes in use,
// each recognised by its exact text.
//
// GLM-4.5 and later, Llama-3:
//   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
//   \s*[\r\n]+|\s+(?!\S)|\s+
// Qwen2 and later: the same with \p{N}. tiktoken's own cl100k_base: the same as GLM's, except that
// white space at the very end of the text is one word even where it holds a line break.
#include <cstddef>
#include <optional>
#include <string_view>

#include "text/unicode.h"

namespace glmtune::text {

class Splitter {
 public:
  // Nothing where the regex is not one of the above.
  static std::optional<Splitter> recognise(std::string_view regex);

  // The end of the word that begins at text[pos]; pos < text.size().
  std::size_t word_end(std::string_view text, std::size_t pos) const;

 private:
  Splitter(int max_digits, bool whole_trailing_space)
      : classes_(&char_classes()),
        max_digits_(max_digits),
        whole_trailing_space_(whole_trailing_space) {}

  const CodeTable* classes_;
  int max_digits_;
  bool whole_trailing_space_;
};

}  // namespace glmtune::text
