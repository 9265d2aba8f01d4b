#pragma once
// Finding the spellings of added tokens in a text.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace glmtune::text {

class AddedTokenMatcher {
 public:
  // `spelling` is the token's content, or its normalized form.
  void add(const AddedToken& token, std::string spelling);
  bool empty() const { return entries_.empty(); }

  struct Match {
    std::size_t begin, end;                  // with the white space lstrip and rstrip take
    std::size_t spelled_begin, spelled_end;  // of the spelling itself
    std::int32_t id;
  };
  // The leftmost of the spellings that begin at or after `from`, of those the longest for which
  // `may_match(begin, end)` holds; `least` bounds how far lstrip reaches back. A longest spelling
  // refused by may_match is reported through `refused(begin, end)`. As in the official library, a
  // single_word spelling that is part of a word is passed over whole: no other spelling begins in
  // it or takes its place. The search goes on at Match::spelled_end, so that white space taken by
  // rstrip may hold the next spelling.
  template <class MayMatch, class Refused>
  std::optional<Match> find(std::string_view text, std::size_t from, std::size_t least,
                            const MayMatch& may_match, const Refused& refused) const {
    for (std::size_t i = from; i < text.size();) {
      const auto& bucket = buckets_[static_cast<unsigned char>(text[i])];
      if (bucket.empty()) {
        ++i;
        continue;
      }
      const Entry* longest = nullptr;
      std::size_t next = i + 1;
      for (const std::uint32_t at : bucket) {  // longest first
        const Entry& e = entries_[at];
        if (text.compare(i, e.spelling.size(), e.spelling) != 0) continue;
        const std::size_t end = i + e.spelling.size();
        if (longest == nullptr) longest = &e;
        if (!may_match(i, end)) continue;
        if (e.single_word && !is_alone(text, i, end)) {
          next = end;
          break;
        }
        return extended(text, i, end, least, e);
      }
      if (longest != nullptr && !may_match(i, i + longest->spelling.size())) {
        refused(i, i + longest->spelling.size());
      }
      i = next;
    }
    return std::nullopt;
  }

 private:
  struct Entry {
    std::string spelling;
    std::int32_t id;
    bool lstrip, rstrip, single_word;
  };
  static bool is_alone(std::string_view text, std::size_t begin, std::size_t end);
  static Match extended(std::string_view text, std::size_t begin, std::size_t end,
                        std::size_t least, const Entry& entry);

  std::vector<Entry> entries_;
  std::array<std::vector<std::uint32_t>, 256> buckets_;  // by first byte, longest first
};

}  // namespace glmtune::text
