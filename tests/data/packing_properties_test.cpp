// Properties of packing and shuffling over generated lengths.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "data/packed_dataset.h"

namespace glmtune::data {
namespace {

using Lengths = std::vector<std::int64_t>;
using Packs = std::vector<std::vector<std::int64_t>>;

Lengths any_lengths(std::int64_t capacity) {
  return *rc::gen::container<Lengths>(
      rc::gen::oneOf(rc::gen::inRange<std::int64_t>(1, capacity + 1), rc::gen::just(capacity)));
}

std::int64_t filled(const Lengths& lengths, const std::vector<std::int64_t>& pack) {
  return std::accumulate(
      pack.begin(), pack.end(), std::int64_t{0},
      [&](std::int64_t sum, std::int64_t i) { return sum + lengths[static_cast<std::size_t>(i)]; });
}

RC_GTEST_PROP(PackingProperty, EverySampleLiesInOnePackAndNoPackIsOverfull, ()) {
  const auto capacity = *rc::gen::inRange<std::int64_t>(1, 50);
  const Lengths lengths = any_lengths(capacity);
  for (const PackingStrategy strategy : {PackingStrategy::kThd, PackingStrategy::kNeat}) {
    std::vector<std::int64_t> seen;
    for (const auto& pack : lay_into_packs(lengths, capacity, strategy)) {
      RC_ASSERT(!pack.empty());
      RC_ASSERT(filled(lengths, pack) <= capacity);
      seen.insert(seen.end(), pack.begin(), pack.end());
    }
    std::sort(seen.begin(), seen.end());
    std::vector<std::int64_t> all(lengths.size());
    std::iota(all.begin(), all.end(), 0);
    RC_ASSERT(seen == all);
  }
}

RC_GTEST_PROP(PackingProperty, NextFitKeepsTheOrderAndClosesAPackOnlyWhenTheNextDoesNotFit, ()) {
  const auto capacity = *rc::gen::inRange<std::int64_t>(1, 50);
  const Lengths lengths = any_lengths(capacity);
  const Packs packs = lay_into_packs(lengths, capacity, PackingStrategy::kThd);
  std::int64_t next = 0;
  for (std::size_t p = 0; p < packs.size(); ++p) {
    for (const std::int64_t sample : packs[p]) RC_ASSERT(sample == next++);
    if (p + 1 < packs.size())
      RC_ASSERT(filled(lengths, packs[p]) +
                    lengths[static_cast<std::size_t>(packs[p + 1].front())] >
                capacity);
  }
}

// Of two packs of best-fit the first sample of the later one did not fit into the earlier one.
RC_GTEST_PROP(PackingProperty, BestFitOpensAPackOnlyWhenNoOpenOneHasRoom, ()) {
  const auto capacity = *rc::gen::inRange<std::int64_t>(1, 50);
  const Lengths lengths = any_lengths(capacity);
  const Packs packs = lay_into_packs(lengths, capacity, PackingStrategy::kNeat);
  for (const auto& later : packs)
    for (const auto& earlier : packs) {
      if (earlier.front() >= later.front()) continue;
      std::int64_t before = 0;  // what the earlier pack held when the later one was opened
      for (const std::int64_t sample : earlier)
        if (sample < later.front()) before += lengths[static_cast<std::size_t>(sample)];
      RC_ASSERT(before + lengths[static_cast<std::size_t>(later.front())] > capacity);
    }
}

}  // namespace
}  // namespace glmtune::data
