// Scratch of attention on a GPU, by shapes alone: what is planned for a row covers smaller ones.
#include <gtest/gtest.h>

#include "ops/attention_sm90.h"

namespace glmtune::ops {
namespace {

constexpr auto kTarget = Device::kCuda;

// A backward over documents of these lengths.
struct Backward {
  Backward(const std::vector<std::int64_t>& lengths, std::int64_t heads) {
    std::int64_t tokens = 0;
    for (const std::int64_t n : lengths) {
      bounds.push_back(static_cast<std::int32_t>(tokens));
      bounds.push_back(static_cast<std::int32_t>(tokens += n));
    }
    const auto rows = [&](std::int64_t size) {
      return Tensor::dense(nullptr, {tokens, heads, size}, DType::kBF16, Device::kMeta);
    };
    op.q = rows(sm90::kHead);
    op.k_nope = rows(sm90::kNope);
    op.v = rows(sm90::kHead);
    op.k_rope = Tensor::dense(nullptr, {tokens, sm90::kRope}, DType::kBF16, Device::kMeta);
    op.documents.host = bounds.data();
    op.documents.count = static_cast<std::int64_t>(lengths.size());
  }
  std::size_t bytes() const { return op.workspace_bytes(kTarget); }

  std::vector<std::int32_t> bounds;
  CausalAttentionBackward op{};
};

TEST(AttentionWorkspace, NeverFallsWithTheTokens) {
  for (const std::int64_t heads : {1, 3, 8, 64}) {
    std::size_t before = 0;
    for (std::int64_t tokens = 1; tokens < 60'000; tokens += 61) {
      const Backward row({tokens}, heads);
      EXPECT_GE(row.bytes(), before) << heads << " heads, " << tokens << " tokens";
      before = row.bytes();
    }
  }
}

TEST(AttentionWorkspace, DependsOnTheNumberOfTokensAndDocumentsOnly) {
  for (const std::int64_t tokens : {5000, 10'500, 30'000}) {
    const std::size_t halves = Backward({tokens / 2, tokens - tokens / 2}, 64).bytes();
    EXPECT_EQ(Backward({1, tokens - 1}, 64).bytes(), halves);
    EXPECT_EQ(Backward({tokens - 100, 100}, 64).bytes(), halves);
    EXPECT_LE(Backward({tokens}, 64).bytes(), halves);
  }
}

TEST(AttentionWorkspace, HoldsWhatTheKernelsLayOut) {
  for (const std::int64_t heads : {1, 3, 8, 64})
    for (const std::int64_t length : {1, 63, 64, 65, 129, 2049, 10'300, 20'500}) {
      const Backward row({length, 1, length}, heads);
      EXPECT_GE(row.bytes(), static_cast<std::size_t>(sm90::backward_scratch(row.op).bytes));
    }
}

}  // namespace
}  // namespace glmtune::ops
