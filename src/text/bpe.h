#pragma once
// Byte-pair encoding: the vocabulary (bytes <-> id), the table of merges, and the merging of one
// word.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace glmtune::text {

std::uint64_t hash_bytes(std::string_view bytes);

class Vocabulary {
 public:
  // Ids may come in any order; the same id or the same bytes twice is the caller's error (false).
  void reserve(std::size_t tokens, std::size_t bytes);
  bool add(std::int32_t id, std::string_view bytes);

  std::int32_t find(std::string_view bytes) const { return find(bytes, hash_bytes(bytes)); }
  std::int32_t find(std::string_view bytes, std::uint64_t hash) const;  // -1: none
  // Ask for the memory that find() will read: first the slot, then what stands behind it.
  void prefetch_slot(std::uint64_t hash) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]);
  }
  void prefetch_entry(std::uint64_t hash) const {
    if (slots_.empty()) return;
    const std::int32_t id = slots_[hash & (slots_.size() - 1)].id;
    if (id >= 0) __builtin_prefetch(&entries_[static_cast<std::size_t>(id)]);
  }
  bool has(std::int32_t id) const {
    return id >= 0 && static_cast<std::size_t>(id) < entries_.size() &&
           entries_[static_cast<std::size_t>(id)].length != kAbsent;
  }
  std::string_view bytes(std::int32_t id) const {  // has(id)
    const Entry& e = entries_[static_cast<std::size_t>(id)];
    return std::string_view(blob_).substr(e.offset, e.length);
  }
  std::uint32_t length(std::int32_t id) const {
    return entries_[static_cast<std::size_t>(id)].length;
  }
  std::int32_t end_id() const { return static_cast<std::int32_t>(entries_.size()); }
  std::size_t size() const { return count_; }

 private:
  static constexpr std::uint32_t kAbsent = 0xFFFFFFFF;
  struct Entry {
    std::uint32_t offset = 0;
    std::uint32_t length = kAbsent;
  };
  struct Slot {
    std::uint32_t tag = 0;  // upper half of the hash
    std::int32_t id = -1;
  };
  void rehash(std::size_t slots);
  void insert(std::int32_t id, std::uint64_t hash);

  std::string blob_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;  // open addressing, a power of two
  std::size_t count_ = 0;
};

struct Merge {
  std::uint32_t rank = 0;  // lower merges first
  std::int32_t id = -1;    // the joined token
};

class MergeTable {
 public:
  static constexpr std::uint32_t kNoRank = 0xFFFFFFFF;
  void reserve(std::size_t merges);
  void add(std::int32_t left, std::int32_t right, Merge merge);  // replaces an earlier one
  void prefetch(std::int32_t left, std::int32_t right) const {
    __builtin_prefetch(&slots_[(key_of(left, right) * kMix) >> shift_], 1);
  }
  Merge find(std::int32_t left, std::int32_t right) const {  // rank kNoRank: none
    if (left < 256 && right < 256 && left >= 0 && right >= 0) {
      return low_ids_[static_cast<std::size_t>(left) * 256 + static_cast<std::size_t>(right)];
    }
    const std::uint64_t key = key_of(left, right);
    for (std::size_t i = (key * kMix) >> shift_;; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].key == key) return slots_[i].merge;
      if (slots_[i].key == kEmpty) return {kNoRank, -1};
    }
  }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  static constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15;
  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32U |
           static_cast<std::uint32_t>(right);
  }
  struct Slot {
    std::uint64_t key = kEmpty;
    Merge merge;
  };
  std::vector<Slot> slots_ = std::vector<Slot>(2);  // open addressing, a power of two
  // The same for ids below 256, which are the single bytes in the vocabularies in use: every word
  // begins with these look-ups.
  std::vector<Merge> low_ids_ = std::vector<Merge>(std::size_t{256} * 256, {kNoRank, -1});
  unsigned shift_ = 63;
  std::size_t count_ = 0;
};

struct WordToken {
  std::int32_t id;
  std::uint32_t length;  // in bytes
};

// Scratch space of merge_word, reused from word to word.
struct MergeScratch {
  struct Symbol {
    std::int32_t id;
    std::uint32_t length;
    Merge next;  // of this symbol with the one after it
    std::uint32_t previous_at, next_at;
  };
  struct Candidate {
    std::uint32_t rank, at, length;
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
  // Short words: one array per member.
  std::vector<std::int32_t> ids, joined;
  std::vector<std::uint32_t> lengths, ranks;
};

// The tokens of one word: its bytes, joined again and again by the merge of lowest rank (of equal
// ones the leftmost). `byte_ids` are the ids of single bytes, -1 where the vocabulary has none:
// then the return value is that byte, otherwise -1. Appends to `out`.
int merge_word(std::string_view word, std::span<const std::int32_t> byte_ids,
               const MergeTable& merges, MergeScratch& scratch, std::vector<WordToken>& out);

}  // namespace glmtune::text
