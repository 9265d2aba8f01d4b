#pragma once
// What the trainer consumes. A pack is a list of whole documents laid end to end; padding does not
// exist. A micro-batch is one or more packs appended to each other. Without packing a pack holds
// one sample, so the trainer knows one case only.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace glmtune::data {

inline constexpr std::int32_t kNoLabel = -100;

struct Pack {
  std::vector<std::int32_t> ids;     // [T]
  std::vector<std::int32_t> labels;  // [T]; the token that row t must predict (already shifted,
                                     // within its document), kNoLabel = none
  // Document starts, then the end (cu_seqlens): documents + 1 entries, the first 0, the last T.
  // Positions restart at 0 in every document.
  std::vector<std::int32_t> bounds{0};

  std::int64_t tokens() const { return static_cast<std::int64_t>(ids.size()); }
  std::int64_t documents() const { return static_cast<std::int64_t>(bounds.size()) - 1; }
  std::int64_t label_tokens() const;
  void append(const Pack& other);
  bool operator==(const Pack&) const = default;
};

// Throws Error unless the three members fit each other and every id and label is below vocab_size.
void check_pack(const Pack& pack, std::int64_t vocab_size, const std::string& where);

// A reason and how often it was met, in the order of first appearance.
struct Count {
  std::string what;
  std::int64_t count = 0;
};
void add_count(std::vector<Count>& counts, const std::string& what, std::int64_t n = 1);

// What a data set holds and what was left out, for the start of a run, `check` and `preview`.
struct DataSummary {
  std::int64_t rows = 0;     // rows selected by split and shuffle
  std::int64_t samples = 0;  // of these, kept
  std::int64_t packs = 0;
  std::int64_t tokens = 0;            // of all kept samples
  std::int64_t label_tokens = 0;      // tokens trained on
  std::int64_t truncated = 0;         // samples cut at seq_length or at the pack's size
  std::int64_t longest = 0;           // tokens of the longest kept sample
  std::int64_t pack_size = 0;         // 0 without packing
  std::vector<Count> dropped;         // rows left out, by reason
  std::vector<Count> notes;           // what was met and is worth knowing (unused fields, control
                                      // token spellings in texts, reasoning a template dropped)
  std::vector<std::string> problems;  // the first messages of rows that were refused and skipped
  std::vector<std::int64_t> length_histogram;  // [b]: samples of 2^b .. 2^(b+1)-1 tokens

  std::int64_t dropped_rows() const;
  // Several lines of text, each ended by a newline.
  std::string text() const;
};

// Adds a sample's length to the longest and the histogram.
void count_length(DataSummary& summary, std::int64_t tokens);

// Of conversations: which template rendered them, and what of an assistant's turns is never trained
// on, whatever the rows hold.
struct ChatFacts {
  std::string template_sha256;         // of the template's text; empty where there is none
  std::vector<std::string> untrained;  // each with the setting or the reason
};

// A source of packs numbered from 0. Implementations are immutable after construction: pack() may
// be called from several threads and gives the same pack every time.
class PackSource {
 public:
  virtual ~PackSource() = default;
  // Number of packs; none for a source without end (every number >= 0 is then a pack).
  virtual std::optional<std::int64_t> size() const = 0;
  virtual Pack pack(std::int64_t number) const = 0;
  // pack(number).tokens(); a source may know it without making the pack.
  virtual std::int64_t tokens(std::int64_t number) const { return pack(number).tokens(); }
  // The largest number of tokens in any pack: what one pack needs at most in memory.
  virtual std::int64_t max_tokens() const = 0;
  // The largest number of documents in any pack; 0: unknown.
  virtual std::int64_t most_documents() const { return 0; }
  // False where packs must be taken in the order of their numbers.
  virtual bool may_shuffle() const { return true; }
  // Identifies content and settings: a resumed run compares it with the one in its checkpoint.
  virtual std::string fingerprint() const = 0;
  virtual const DataSummary& summary() const = 0;
  virtual ChatFacts chat_facts() const { return {}; }
  // Where document d of a pack comes from: "file:line".
  virtual std::string where(std::int64_t pack, std::int64_t document) const = 0;
};

}  // namespace glmtune::data
