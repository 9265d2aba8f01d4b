#include "text/added_tokens.h"

#include <algorithm>

#include "text/unicode.h"

namespace glmtune::text {
namespace {

std::size_t previous_code(std::string_view text, std::size_t pos) {
  do {
    --pos;
  } while (pos > 0 && (static_cast<unsigned char>(text[pos]) & 0xC0U) == 0x80);
  return pos;
}

bool is_space_at(std::string_view text, std::size_t pos) {
  return char_classes()[decode_utf8(text, pos).code] == kSpace;
}

}  // namespace

void AddedTokenMatcher::add(const AddedToken& token, std::string spelling) {
  if (spelling.empty()) return;
  auto& bucket = buckets_[static_cast<unsigned char>(spelling[0])];
  entries_.push_back(
      {std::move(spelling), token.id, token.lstrip, token.rstrip, token.single_word});
  bucket.push_back(static_cast<std::uint32_t>(entries_.size() - 1));
  std::stable_sort(bucket.begin(), bucket.end(), [&](std::uint32_t a, std::uint32_t b) {
    return entries_[a].spelling.size() > entries_[b].spelling.size();
  });
}

bool AddedTokenMatcher::is_alone(std::string_view text, std::size_t begin, std::size_t end) {
  const bool word_before =
      begin > 0 && is_word_character(decode_utf8(text, previous_code(text, begin)).code);
  const bool word_after = end < text.size() && is_word_character(decode_utf8(text, end).code);
  return !word_before && !word_after;
}

AddedTokenMatcher::Match AddedTokenMatcher::extended(std::string_view text, std::size_t begin,
                                                     std::size_t end, std::size_t least,
                                                     const Entry& entry) {
  Match m{begin, end, begin, end, entry.id};
  if (entry.lstrip) {
    while (m.begin > least && is_space_at(text, previous_code(text, m.begin))) {
      m.begin = previous_code(text, m.begin);
    }
  }
  if (entry.rstrip) {
    while (m.end < text.size() && is_space_at(text, m.end)) {
      m.end += decode_utf8(text, m.end).length;
    }
  }
  return m;
}

}  // namespace glmtune::text
