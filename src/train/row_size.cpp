#include "train/row_size.h"

#include <algorithm>
#include <limits>

namespace glmtune::train {
namespace {

using Lengths = std::vector<std::int64_t>;

// The shortest document on the gather path; the largest number where none takes it.
std::int64_t shortest_gathered(const nn::AttentionSettings& a) {
  if (!a.force) return std::max(a.index_topk, a.masked_max_tokens) + 1;
  if (a.forced != nn::AttentionPath::kGather) return std::numeric_limits<std::int64_t>::max();
  return a.force_short ? 1 : a.index_topk + 1;
}

// Adds documents of `tokens` tokens in all: the longest there may be; a last one shorter than
// `at_least` takes what it lacks from the one before.
void add_longest(Lengths& to, std::int64_t tokens, std::int64_t longest, std::int64_t at_least) {
  while (tokens > 0) {
    std::int64_t n = std::min(longest, tokens);
    const std::int64_t rest = tokens - n;
    if (rest > 0 && rest < at_least && tokens - at_least >= at_least) n = tokens - at_least;
    to.push_back(n);
    tokens -= n;
  }
}

}  // namespace

SampleRow::SampleRow(const Lengths& documents) : cu_seqlens{0} {
  for (const std::int64_t n : documents)
    cu_seqlens.push_back(cu_seqlens.back() + static_cast<std::int32_t>(n));
  ids.assign(static_cast<std::size_t>(cu_seqlens.back()), 0);
  labels = ids;
}

std::vector<SampleRow> largest_rows(const RowSize& size, const nn::AttentionSettings& attention) {
  const std::int64_t tokens = size.tokens;
  const std::int64_t longest =
      size.longest_document > 0 ? std::min(size.longest_document, tokens) : tokens;
  const std::int64_t fewest = (tokens + longest - 1) / longest;
  const std::int64_t gathered = shortest_gathered(attention);
  std::vector<SampleRow> rows;
  // A last document of `last` tokens in the last pack, and `single` ones of one token in each: once
  // with the longest of all, once with as many tokens on the gather path as there may be. alone:
  // the last document has its pack to itself.
  const auto add = [&](std::int64_t last, std::int64_t single, bool alone) {
    Lengths before;
    for (const std::int64_t at_least : {std::int64_t{1}, longest >= gathered ? gathered : 1}) {
      Lengths documents;
      for (std::int64_t pack = 1; pack <= size.packs; ++pack) {
        const std::int64_t end = pack == size.packs ? last : 0;
        if (!alone || end == 0) add_longest(documents, tokens - single - end, longest, at_least);
        documents.insert(documents.end(), static_cast<std::size_t>(single), 1);
        if (end > 0) documents.push_back(end);
      }
      if (documents == before) continue;
      rows.emplace_back(documents);
      before = std::move(documents);
    }
  };
  add(0, 0, false);
  if (longest >= gathered && size.most_documents != 1)
    for (const std::int64_t n : {std::int64_t{1}, std::min(gathered - 1, tokens - 1)})
      if (n > 0 && n < gathered) add(n, 0, false);
  if (longest >= gathered && size.most_documents == 1 && size.packs > 1 && gathered > 1)
    add(gathered - 1, 0, true);
  const std::int64_t most = std::min(size.most_documents, tokens);
  if (most > fewest) add(0, most - fewest, false);
  return rows;
}

}  // namespace glmtune::train
