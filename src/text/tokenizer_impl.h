#pragma once
// What a loaded tokenizer holds; shared by tokenizer.cpp (use) and tokenizer_load.cpp (reading).
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/split.h"
#include "text/tokenizer.h"

namespace glmtune::text {

struct Tokenizer::Impl {
  std::string where;
  // Ordinary tokens only, so that a marker's id can never come out of ordinary text. An added token
  // is here where it is an entry of the model's vocabulary too, a word, and not flagged special.
  Vocabulary vocabulary;
  MergeTable merges;
  std::array<std::int32_t, 256> byte_ids{};  // -1: the vocabulary lacks the byte
  bool ignore_merges = false;  // a word that is a token is taken whole, without merging
  std::optional<Splitter> splitter;
  bool nfc = false;

  std::vector<AddedToken> added;  // by id
  std::unordered_map<std::int32_t, std::size_t> added_by_id;
  std::unordered_map<std::string, std::int32_t> added_by_content;
  std::vector<std::string> added_bytes;  // as the byte-level decoder spells them
  AddedTokenMatcher raw_matcher;         // matched before normalization
  AddedTokenMatcher normalized_matcher;  // after it

  std::string bos_token, eos_token, pad_token;
};

}  // namespace glmtune::text
