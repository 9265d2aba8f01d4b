#pragma once
// Tokenizer: byte-level BPE read from a Hugging Face folder (tokenizer.json, and
// tokenizer_config.json for the names of the special tokens).
//
// Ids equal those of the official `tokenizers` library with add_special_tokens=false; encode adds
// no token of its own. The split regex is recognised by its exact text (split.h). Anything in the
// file this reader does not know (another model, normalizer, pre-tokenizer, regex, decoder) is an
// error that names what was found.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace glmtune::text {

struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;  // one past the last byte
  bool operator==(const ByteRange&) const = default;
};

// A token beside the BPE vocabulary, with the flags as the file gives them.
struct AddedToken {
  std::int32_t id = -1;
  std::string content;
  bool special = false;      // dropped by skip_special_tokens
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool single_word = false;  // matches only between non-word characters
  bool normalized = false;   // matched in the normalized text
};

// ids[i] stands for the bytes offsets[i] of the text. Neighbours touch, except where a normalizer
// rewrote the text: then each token covers every source character it was made from, and may
// overlap its neighbour.
struct Encoding {
  std::vector<std::int32_t> ids;
  std::vector<ByteRange> offsets;
};

struct EncodeOptions {
  // Whether the spelling of an added token becomes that token (leftmost, longest). Off, the text
  // is ordinary text throughout: the only added ids that can come out are those of words (not
  // special) that the BPE vocabulary has as well.
  bool match_added_tokens = false;
};

struct DecodeOptions {
  bool skip_special_tokens = false;  // drops the tokens flagged special, and only those
};

// Words already split, and scratch space: makes encoding many texts fast. Bounded (some tens of
// MB); one per thread, for one tokenizer.
class EncodeCache {
 public:
  EncodeCache();
  ~EncodeCache();
  EncodeCache(EncodeCache&&) noexcept;
  EncodeCache& operator=(EncodeCache&&) noexcept;
  struct State;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// Immutable after loading, cheap to copy, safe to use from several threads.
class Tokenizer {
 public:
  static Tokenizer load(const std::string& folder);
  // The same from the texts of the two files (`config_json` may be empty); `where` begins error
  // messages.
  static Tokenizer parse(std::string_view tokenizer_json, std::string_view config_json,
                         std::string_view where);

  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
  // Appends to `out`; offsets count from the beginning of `text`.
  void encode(std::string_view text, const EncodeOptions& options, EncodeCache& cache,
              Encoding& out) const;
  // Matches added tokens only where every byte of their spelling lies inside `matchable` (sorted,
  // disjoint; ranges that touch count as one). Everything between two matches is encoded as one
  // text. Returns how many spellings of added tokens were left as ordinary text.
  std::size_t encode_where(std::string_view text, std::span<const ByteRange> matchable,
                           EncodeCache& cache, Encoding& out) const;

  // The text of `ids`; invalid UTF-8 becomes U+FFFD as the official library does it. An id the
  // tokenizer does not have is an error.
  std::string decode(std::span<const std::int32_t> ids, const DecodeOptions& options = {}) const;
  // The raw bytes of one token (an added token's content).
  std::string_view token_bytes(std::int32_t id) const;
  // An added token's id by its content, or an ordinary token's by its bytes.
  std::optional<std::int32_t> token_id(std::string_view content) const;

  std::int32_t vocab_size() const;  // the largest id + 1
  const std::vector<AddedToken>& added_tokens() const;
  const AddedToken* added_token(std::int32_t id) const;  // null for an ordinary token

  // As tokenizer_config.json names them ("" and nothing where it does not).
  const std::string& bos_token() const;
  const std::string& eos_token() const;
  const std::string& pad_token() const;
  std::optional<std::int32_t> eos_token_id() const;
  std::optional<std::int32_t> pad_token_id() const;

  struct Impl;

 private:
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace glmtune::text
