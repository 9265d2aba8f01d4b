#pragma once
// Reading the list of merges: a few hundred thousand pairs, each looked up in tables that no cache
// holds. They are taken in batches, whose memory is asked for before it is needed.
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "text/bpe.h"

namespace glmtune::text {

class MergeLoader {
 public:
  // missing(rank, left, right): a merge of tokens the vocabulary does not have; in the spelling of
  // the file.
  using Missing = std::function<void(std::uint32_t, std::string_view, std::string_view)>;
  MergeLoader(const Vocabulary& vocabulary, MergeTable& merges, Missing missing)
      : vocabulary_(vocabulary), merges_(merges), missing_(std::move(missing)) {}

  // The next merge, in the byte-level alphabet; the views live until finish().
  void add(std::string_view left, std::string_view right) {
    batch_[count_].left = left;
    batch_[count_].right = right;
    if (++count_ == kBatch) flush();
  }
  void finish() { flush(); }
  std::uint32_t rank() const { return rank_ + static_cast<std::uint32_t>(count_); }

 private:
  static constexpr std::size_t kBatch = 64;
  struct Pending {
    std::string_view left, right;
    std::string bytes;  // of the joined token
    std::size_t left_bytes = 0;
    bool spelled = false;  // in the byte-level alphabet
    std::uint64_t left_hash = 0, right_hash = 0;
    std::int32_t left_id = -1, right_id = -1;
    std::string_view left_part() const { return std::string_view(bytes).substr(0, left_bytes); }
    std::string_view right_part() const { return std::string_view(bytes).substr(left_bytes); }
  };
  void flush();
  std::int32_t joined_id(std::string_view bytes);

  const Vocabulary& vocabulary_;
  MergeTable& merges_;
  Missing missing_;
  std::array<Pending, kBatch> batch_;
  std::size_t count_ = 0;
  std::uint32_t rank_ = 0;  // of the batch's first
  std::int32_t last_joined_ = 0;
};

}  // namespace glmtune::text
