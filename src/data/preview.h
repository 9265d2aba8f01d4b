#pragma once
// What a run would train on, pack by pack: the text of every document with the tokens that are
// trained on marked, in colour on a terminal and in brackets elsewhere.
#include <cstdint>
#include <string>

#include "data/pack.h"

namespace glmtune::text {
class Tokenizer;
}

namespace glmtune::data {

struct PreviewOptions {
  std::int64_t packs = 3;
  std::int64_t first = 0;          // the first pack shown
  bool color = false;              // ANSI colours, neighbouring tokens in two shades
  bool tokens = false;             // a line a token instead of the running text
  std::string order = {};          // said of the order of the packs; empty: nothing
  std::int64_t max_tokens = 4000;  // of one document; the rest is left out and counted
};

// The packs, then the summary. Without a tokenizer ids are shown.
std::string preview(const PackSource& source, const text::Tokenizer* tokenizer,
                    const PreviewOptions& options);

// One document of a pack: its text, targets marked; a stop that is a label only comes last.
std::string preview_document(const Pack& pack, std::int64_t document,
                             const text::Tokenizer* tokenizer, const PreviewOptions& options);

// The same document, a line a token: position, id, + where it is trained on, text in quotes.
std::string preview_tokens(const Pack& pack, std::int64_t document,
                           const text::Tokenizer* tokenizer, const PreviewOptions& options);

}  // namespace glmtune::data
