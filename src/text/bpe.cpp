#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace glmtune::text {
namespace {

constexpr std::uint64_t kMix1 = 0x9E3779B97F4A7C15, kMix2 = 0xD6E8FEB86659FD93;

std::uint64_t load(const char* p, std::size_t n) {
  std::uint64_t v = 0;
  std::memcpy(&v, p, n);
  return v;
}

std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
  h = (h ^ v) * kMix2;
  return h ^ h >> 32U;
}

// Above this many bytes a word is merged with a heap: n log n instead of n squared.
constexpr std::size_t kShortWord = 256;

using Symbol = MergeScratch::Symbol;
using Candidate = MergeScratch::Candidate;

void merge_short(MergeScratch& s, const MergeTable& merges, std::vector<WordToken>& out) {
  std::size_t n = s.ids.size();
  const auto look_up = [&](std::size_t i) {
    const Merge m = merges.find(s.ids[i], s.ids[i + 1]);
    s.ranks[i] = m.rank;
    s.joined[i] = m.id;
  };
  const auto remove = [n = &n](auto& values, std::size_t at) {
    std::copy(values.begin() + static_cast<std::ptrdiff_t>(at) + 1,
              values.begin() + static_cast<std::ptrdiff_t>(*n),
              values.begin() + static_cast<std::ptrdiff_t>(at));
  };
  s.lengths.assign(n, 1);
  s.ranks.assign(n, MergeTable::kNoRank);  // the last one has no right neighbour
  s.joined.assign(n, -1);
  for (std::size_t i = 0; i + 1 < n; ++i) look_up(i);
  while (n > 1) {
    // Two plain passes, which the compiler makes into vector code.
    std::uint32_t lowest = MergeTable::kNoRank;
    const std::uint32_t* ranks = s.ranks.data();
    for (std::size_t i = 0; i < n; ++i) lowest = std::min(lowest, ranks[i]);
    if (lowest == MergeTable::kNoRank) break;
    std::size_t best = 0;
    while (ranks[best] != lowest) ++best;
    s.ids[best] = s.joined[best];
    s.lengths[best] += s.lengths[best + 1];
    remove(s.ids, best + 1);
    remove(s.lengths, best + 1);
    remove(s.ranks, best);
    remove(s.joined, best);
    --n;
    if (best + 1 < n) look_up(best);
    if (best > 0) look_up(best - 1);
  }
  for (std::size_t i = 0; i < n; ++i) out.push_back({s.ids[i], s.lengths[i]});
}

// A linked list of symbols and a heap of candidates; a candidate is stale when the two symbols it
// would join no longer have the length they had together.
void merge_long(MergeScratch& scratch, const MergeTable& merges) {
  std::vector<Symbol>& s = scratch.symbols;
  std::vector<Candidate>& heap = scratch.heap;
  constexpr std::uint32_t kNone = 0xFFFFFFFF;
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  };
  const auto consider = [&](std::uint32_t at) {
    Symbol& left = s[at];
    if (left.next_at == kNone) return;
    const Symbol& right = s[left.next_at];
    left.next = merges.find(left.id, right.id);
    if (left.next.rank == MergeTable::kNoRank) return;
    heap.push_back({left.next.rank, at, left.length + right.length});
    std::push_heap(heap.begin(), heap.end(), later);
  };
  heap.clear();
  const auto n = static_cast<std::uint32_t>(s.size());
  for (std::uint32_t i = 0; i < n; ++i) {
    s[i].previous_at = i == 0 ? kNone : i - 1;
    s[i].next_at = i + 1 == n ? kNone : i + 1;
  }
  for (std::uint32_t i = 0; i + 1 < n; ++i) consider(i);
  while (!heap.empty()) {
    const Candidate c = heap.front();
    std::pop_heap(heap.begin(), heap.end(), later);
    heap.pop_back();
    Symbol& left = s[c.at];
    if (left.length == 0 || left.next_at == kNone) continue;
    Symbol& right = s[left.next_at];
    if (left.length + right.length != c.length) continue;
    left.id = left.next.id;
    left.length = c.length;
    right.length = 0;
    left.next_at = right.next_at;
    if (left.next_at != kNone) s[left.next_at].previous_at = c.at;
    consider(c.at);
    if (left.previous_at != kNone) consider(left.previous_at);
  }
  s.erase(std::remove_if(s.begin(), s.end(), [](const Symbol& x) { return x.length == 0; }),
          s.end());
}

}  // namespace

std::uint64_t hash_bytes(std::string_view bytes) {
  const char* p = bytes.data();
  std::size_t n = bytes.size();
  std::uint64_t h = n * kMix1;
  for (; n > 16; n -= 8, p += 8) h = mix(h, load(p, 8));
  if (n > 8) {
    h = mix(h, load(p, 8));
    h = mix(h, load(p + n - 8, 8));
  } else if (n == 8) {
    h = mix(h, load(p, 8));
  } else if (n >= 4) {
    h = mix(h, load(p, 4) | load(p + n - 4, 4) << 32U);
  } else if (n > 0) {
    h = mix(h, static_cast<std::uint64_t>(static_cast<unsigned char>(p[0])) |
                   static_cast<std::uint64_t>(static_cast<unsigned char>(p[n / 2])) << 8U |
                   static_cast<std::uint64_t>(static_cast<unsigned char>(p[n - 1])) << 16U);
  }
  h *= kMix1;
  return h ^ h >> 29U;
}

void Vocabulary::reserve(std::size_t tokens, std::size_t bytes) {
  blob_.reserve(bytes);
  entries_.reserve(tokens);
  rehash(std::bit_ceil(std::max<std::size_t>(64, tokens * 2)));
}

void Vocabulary::rehash(std::size_t slots) {
  slots_.assign(slots, Slot{});
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    if (has(id)) insert(id, hash_bytes(bytes(id)));
  }
}

void Vocabulary::insert(std::int32_t id, std::uint64_t hash) {
  std::size_t i = hash & (slots_.size() - 1);
  while (slots_[i].id >= 0) i = (i + 1) & (slots_.size() - 1);
  slots_[i] = {static_cast<std::uint32_t>(hash >> 32U), id};
}

bool Vocabulary::add(std::int32_t id, std::string_view bytes) {
  if (slots_.size() < (count_ + 1) * 2)
    rehash(std::bit_ceil(std::max<std::size_t>(64, count_ * 4)));
  const std::uint64_t hash = hash_bytes(bytes);
  if (has(id) || find(bytes, hash) >= 0) return false;
  const auto at = static_cast<std::size_t>(id);
  if (entries_.size() <= at) entries_.resize(at + 1);
  entries_[at] = {static_cast<std::uint32_t>(blob_.size()),
                  static_cast<std::uint32_t>(bytes.size())};
  blob_ += bytes;
  insert(id, hash);
  ++count_;
  return true;
}

std::int32_t Vocabulary::find(std::string_view bytes, std::uint64_t hash) const {
  if (slots_.empty()) return -1;
  const auto tag = static_cast<std::uint32_t>(hash >> 32U);
  for (std::size_t i = hash & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[i];
    if (slot.id < 0) return -1;
    if (slot.tag == tag && this->bytes(slot.id) == bytes) return slot.id;
  }
}

void MergeTable::reserve(std::size_t merges) {
  const std::size_t slots = std::bit_ceil(std::max<std::size_t>(16, merges * 2));
  std::vector<Slot> old(slots);
  old.swap(slots_);
  shift_ = static_cast<unsigned>(64 - std::countr_zero(slots));
  count_ = 0;
  for (const Slot& s : old) {
    if (s.key != kEmpty) {
      add(static_cast<std::int32_t>(s.key >> 32U), static_cast<std::int32_t>(s.key & 0xFFFFFFFF),
          s.merge);
    }
  }
}

void MergeTable::add(std::int32_t left, std::int32_t right, Merge merge) {
  if (left >= 0 && right >= 0 && left < 256 && right < 256) {
    low_ids_[static_cast<std::size_t>(left) * 256 + static_cast<std::size_t>(right)] = merge;
    return;
  }
  if (slots_.size() < (count_ + 1) * 2) reserve(2 * (count_ + 1));
  const std::uint64_t key = key_of(left, right);
  std::size_t i = (key * kMix) >> shift_;
  while (slots_[i].key != kEmpty && slots_[i].key != key) i = (i + 1) & (slots_.size() - 1);
  if (slots_[i].key == kEmpty) ++count_;
  slots_[i] = {key, merge};
}

int merge_word(std::string_view word, std::span<const std::int32_t> byte_ids,
               const MergeTable& merges, MergeScratch& scratch, std::vector<WordToken>& out) {
  scratch.ids.resize(word.size());
  for (std::size_t i = 0; i < word.size(); ++i) {
    const auto byte = static_cast<unsigned char>(word[i]);
    scratch.ids[i] = byte_ids[byte];
    if (scratch.ids[i] < 0) return byte;
  }
  if (word.size() <= kShortWord) {
    merge_short(scratch, merges, out);
    return -1;
  }
  std::vector<Symbol>& s = scratch.symbols;
  s.clear();
  for (const std::int32_t id : scratch.ids) {
    s.push_back({id, 1, {MergeTable::kNoRank, -1}, 0, 0});
  }
  merge_long(scratch, merges);
  for (const Symbol& symbol : s) out.push_back({symbol.id, symbol.length});
  return -1;
}

}  // namespace glmtune::text
