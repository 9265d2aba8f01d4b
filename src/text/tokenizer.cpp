#include "text/tokenizer.h"

#include <algorithm>
#include <bit>

#include "base/cat.h"
#include "base/error.h"
#include "io/utf8.h"
#include "text/nfc.h"
#include "text/tokenizer_impl.h"

namespace glmtune::text {

// A table of words with their tokens, which grows as they come. When it is full it is emptied: the
// frequent words come back at once.
struct EncodeCache::State {
  static constexpr std::size_t kFirstSlots = std::size_t(1) << 11;
  static constexpr std::size_t kMaxSlots = std::size_t(1) << 17;
  static constexpr std::size_t kMaxWords = kMaxSlots / 2;
  static constexpr std::size_t kMaxWordBytes = 128;
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t word = 0;   // offset in `words`
    std::uint32_t first = 0;  // index in `tokens`
    std::uint16_t bytes = 0;  // 0: empty
    std::uint16_t count = 0;
  };

  std::shared_ptr<const Tokenizer::Impl> owner;
  std::vector<Slot> slots = std::vector<Slot>(kFirstSlots);
  std::string words;
  std::vector<WordToken> tokens;
  std::size_t used = 0;
  MergeScratch scratch;
  std::vector<WordToken> merged;

  void belong_to(const std::shared_ptr<const Tokenizer::Impl>& tokenizer) {
    if (owner == tokenizer) return;
    clear();
    owner = tokenizer;
  }
  void clear() {
    std::fill(slots.begin(), slots.end(), Slot{});
    words.clear();
    tokens.clear();
    used = 0;
  }
  // The slot of the word, or the empty slot where it belongs.
  Slot& slot(std::string_view word, std::uint64_t hash) {
    std::size_t i = hash & (slots.size() - 1);
    while (slots[i].bytes != 0) {
      const Slot& s = slots[i];
      if (s.hash == hash && std::string_view(words).substr(s.word, s.bytes) == word) break;
      i = (i + 1) & (slots.size() - 1);
    }
    return slots[i];
  }
  void grow() {
    std::vector<Slot> old(slots.size() * 4);
    old.swap(slots);
    for (const Slot& s : old) {
      if (s.bytes == 0) continue;
      std::size_t i = s.hash & (slots.size() - 1);
      while (slots[i].bytes != 0) i = (i + 1) & (slots.size() - 1);
      slots[i] = s;
    }
  }
  void store(Slot& empty, std::string_view word, std::uint64_t hash) {
    if (word.size() > kMaxWordBytes) return;
    if (used == kMaxWords) return clear();
    empty = {hash, static_cast<std::uint32_t>(words.size()),
             static_cast<std::uint32_t>(tokens.size()), static_cast<std::uint16_t>(word.size()),
             static_cast<std::uint16_t>(merged.size())};
    words += word;
    tokens.insert(tokens.end(), merged.begin(), merged.end());
    if (++used * 2 > slots.size() && slots.size() < kMaxSlots) grow();
  }
};

EncodeCache::EncodeCache() : state_(std::make_unique<State>()) {}
EncodeCache::~EncodeCache() = default;
EncodeCache::EncodeCache(EncodeCache&&) noexcept = default;
EncodeCache& EncodeCache::operator=(EncodeCache&&) noexcept = default;

namespace {

class Encoder {
 public:
  Encoder(const Tokenizer::Impl& t, EncodeCache::State& state, Encoding& out)
      : t_(t), state_(state), out_(out) {}

  // text[begin, end) without added tokens that are matched before normalization.
  template <class MayMatch, class Refused>
  void piece(std::string_view text, std::size_t begin, std::size_t end, const MayMatch& may_match,
             const Refused& refused) {
    const std::string_view source = text.substr(begin, end - begin);
    if (!t_.nfc || is_surely_nfc(source)) {
      normalized(
          source, [&](std::size_t b, std::size_t e) { return may_match(begin + b, begin + e); },
          [&](std::size_t b, std::size_t e) { refused(begin + b, begin + e); },
          [&](std::size_t b, std::size_t e) {
            return ByteRange{begin + b, begin + e};
          });
      return;
    }
    const Normalized n = normalize_nfc(source);
    const auto source_range = [&](std::size_t b, std::size_t e) {
      return ByteRange{begin + n.source_begin(b), begin + n.source_end(e)};
    };
    normalized(
        n.text,
        [&](std::size_t b, std::size_t e) {
          const ByteRange r = source_range(b, e);
          return may_match(r.begin, r.end);
        },
        [&](std::size_t b, std::size_t e) {
          const ByteRange r = source_range(b, e);
          refused(r.begin, r.end);
        },
        source_range);
  }

  // Where the token begins in white space that rstrip gave to the one before it, that one's range
  // ends there (`overlaps`).
  void added(const AddedTokenMatcher::Match& m, ByteRange range, bool overlaps) {
    if (overlaps) out_.offsets.back().end = range.begin;
    out_.ids.push_back(m.id);
    out_.offsets.push_back(range);
  }

 private:
  template <class MayMatch, class Refused, class Range>
  void normalized(std::string_view text, const MayMatch& may_match, const Refused& refused,
                  const Range& range) {
    std::size_t pos = 0;   // what is before it has its tokens
    std::size_t from = 0;  // where the next spelling may begin
    if (!t_.normalized_matcher.empty()) {
      while (const auto m = t_.normalized_matcher.find(text, from, pos, may_match, refused)) {
        if (pos < m->begin) ordinary(text.substr(pos, m->begin - pos), pos, range);
        added(*m, range(m->begin, m->end), m->begin < pos);
        pos = m->end;
        from = m->spelled_end;
      }
    }
    ordinary(text.substr(pos), pos, range);
  }

  template <class Range>
  void ordinary(std::string_view text, std::size_t base, const Range& range) {
    const auto emit = [&](std::int32_t id, std::size_t begin, std::size_t length) {
      out_.ids.push_back(id);
      out_.offsets.push_back(range(base + begin, base + begin + length));
    };
    for (std::size_t pos = 0; pos < text.size();) {
      const std::size_t end = t_.splitter->word_end(text, pos);
      const std::string_view word = text.substr(pos, end - pos);
      const std::uint64_t hash = hash_bytes(word);
      const std::int32_t whole = t_.ignore_merges ? t_.vocabulary.find(word, hash) : -1;
      if (whole >= 0) {
        emit(whole, pos, word.size());
      } else {
        for (const WordToken& token : split_word(word, hash)) {
          emit(token.id, pos, token.length);
          pos += token.length;
        }
      }
      pos = end;
    }
  }

  std::span<const WordToken> split_word(std::string_view word, std::uint64_t hash) {
    EncodeCache::State::Slot& slot = state_.slot(word, hash);
    if (slot.bytes != 0) return std::span(state_.tokens).subspan(slot.first, slot.count);
    state_.merged.clear();
    const int missing = merge_word(word, t_.byte_ids, t_.merges, state_.scratch, state_.merged);
    if (missing >= 0) {
      fail(cat(t_.where, ": the vocabulary has no token for byte ", missing,
               ", which the text holds"));
    }
    state_.store(slot, word, hash);
    return state_.merged;
  }

  const Tokenizer::Impl& t_;
  EncodeCache::State& state_;
  Encoding& out_;
};

}  // namespace

std::size_t Tokenizer::encode_where(std::string_view text, std::span<const ByteRange> matchable,
                                    EncodeCache& cache, Encoding& out) const {
  check(text.size() < (std::size_t(1) << 32U), "a text to encode must be shorter than 4 GiB");
  EncodeCache::State& state = cache.state();
  state.belong_to(impl_);

  std::vector<ByteRange> ranges;  // those that touch joined
  for (const ByteRange& r : matchable) {
    if (!ranges.empty() && ranges.back().end == r.begin) {
      ranges.back().end = r.end;
    } else {
      ranges.push_back(r);
    }
  }
  const auto may_match = [&](std::size_t begin, std::size_t end) {
    const auto after =
        std::upper_bound(ranges.begin(), ranges.end(), begin,
                         [](std::size_t b, const ByteRange& r) { return b < r.begin; });
    return after != ranges.begin() && end <= std::prev(after)->end;
  };
  std::size_t spellings = 0;
  std::size_t counted_to = 0;
  const auto refused = [&](std::size_t begin, std::size_t end) {
    if (begin < counted_to) return;
    ++spellings;
    counted_to = end;
  };

  Encoder encoder(*impl_, state, out);
  std::size_t pos = 0;   // what is before it has its tokens
  std::size_t from = 0;  // where the next spelling may begin
  while (const auto m = impl_->raw_matcher.find(text, from, pos, may_match, refused)) {
    if (pos < m->begin) encoder.piece(text, pos, m->begin, may_match, refused);
    encoder.added(*m, {m->begin, m->end}, m->begin < pos);
    pos = m->end;
    from = m->spelled_end;
  }
  encoder.piece(text, pos, text.size(), may_match, refused);
  return spellings;
}

void Tokenizer::encode(std::string_view text, const EncodeOptions& options, EncodeCache& cache,
                       Encoding& out) const {
  const ByteRange everything{0, text.size()};
  encode_where(text,
               options.match_added_tokens ? std::span(&everything, 1) : std::span<ByteRange>(),
               cache, out);
}

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  EncodeCache cache;
  Encoding out;
  encode(text, options, cache, out);
  return out;
}

std::string_view Tokenizer::token_bytes(std::int32_t id) const {
  if (const auto at = impl_->added_by_id.find(id); at != impl_->added_by_id.end()) {
    return impl_->added_bytes[at->second];
  }
  if (!impl_->vocabulary.has(id)) {
    fail(cat(impl_->where, ": no token has id ", id, " (ids end at ", vocab_size() - 1, ")"));
  }
  return impl_->vocabulary.bytes(id);
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids,
                              const DecodeOptions& options) const {
  std::string bytes;
  for (const std::int32_t id : ids) {
    const AddedToken* added = added_token(id);
    if (options.skip_special_tokens && added != nullptr && added->special) continue;
    bytes += token_bytes(id);
  }
  return io::replace_invalid_utf8(bytes);
}

std::optional<std::int32_t> Tokenizer::token_id(std::string_view content) const {
  if (const auto at = impl_->added_by_content.find(std::string(content));
      at != impl_->added_by_content.end()) {
    return at->second;
  }
  const std::int32_t id = impl_->vocabulary.find(content);
  return id < 0 ? std::nullopt : std::optional(id);
}

std::int32_t Tokenizer::vocab_size() const {
  const std::int32_t ordinary = impl_->vocabulary.end_id();
  return impl_->added.empty() ? ordinary : std::max(ordinary, impl_->added.back().id + 1);
}

const std::vector<AddedToken>& Tokenizer::added_tokens() const {
  return impl_->added;
}

const AddedToken* Tokenizer::added_token(std::int32_t id) const {
  const auto at = impl_->added_by_id.find(id);
  return at == impl_->added_by_id.end() ? nullptr : &impl_->added[at->second];
}

const std::string& Tokenizer::bos_token() const {
  return impl_->bos_token;
}
const std::string& Tokenizer::eos_token() const {
  return impl_->eos_token;
}
const std::string& Tokenizer::pad_token() const {
  return impl_->pad_token;
}

std::optional<std::int32_t> Tokenizer::eos_token_id() const {
  return impl_->eos_token.empty() ? std::nullopt : token_id(impl_->eos_token);
}

std::optional<std::int32_t> Tokenizer::pad_token_id() const {
  return impl_->pad_token.empty() ? std::nullopt : token_id(impl_->pad_token);
}

}  // namespace glmtune::text
