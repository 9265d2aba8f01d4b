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

// Lengths, up to `longest`, of the documents that go to CausalAttention together.
struct Range {
  std::int64_t least = 0, most = 0;
};

// Without a mask and with one; fewer where no document goes that way.
std::vector<Range> expanded_lengths(const nn::AttentionSettings& a, std::int64_t longest) {
  std::vector<Range> found;
  for (const nn::AttentionPath path : {nn::AttentionPath::kDense, nn::AttentionPath::kMasked}) {
    Range all;
    std::int64_t begin = 1;
    for (const std::int64_t end : {a.index_topk, a.masked_max_tokens, longest}) {
      const std::int64_t last = std::min(end, longest);
      if (begin > last) continue;
      if (nn::choose_path(begin, a) == path)
        all = {.least = all.least > 0 ? all.least : begin, .most = last};
      begin = last + 1;
    }
    if (all.least > 0) found.push_back(all);
  }
  return found;
}

// A pack of `tokens` tokens with as many in documents of these lengths as there may be, then with
// as many of these documents. most: documents of a pack, 0 for any number.
Lengths most_of(const Range& range, std::int64_t tokens, std::int64_t longest, std::int64_t most) {
  if (most == 0) most = (tokens + range.most - 1) / range.most;
  std::int64_t longer = 0;
  while (longer < most && (most - longer) * range.most + longer * longest < tokens) ++longer;
  Lengths documents;
  const std::int64_t others = std::max<std::int64_t>(tokens - (most - longer) * range.most, 0);
  if (longer > 0) add_longest(documents, std::min(others, longer * longest), longest, 1);
  const std::int64_t rest = tokens - std::min(others, longer * longest);
  const std::int64_t count = std::min(most - longer, rest / range.least);
  std::int64_t extra = rest - count * range.least;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t more = std::min(extra, range.most - range.least);
    documents.push_back(range.least + more);
    extra -= more;
  }
  if (extra > 0 && count < most - longer) documents.push_back(extra);
  return documents;
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
  const std::int64_t most =
      size.most_documents > 0 ? std::max(std::min(size.most_documents, tokens), fewest) : 0;
  if (most > fewest) add(0, most - fewest, false);
  // What the attention kernels take grows with the documents of one path, tokens and number.
  for (const Range& range : expanded_lengths(attention, longest)) {
    const Lengths pack = most_of(range, tokens, longest, most);
    Lengths documents;
    for (std::int64_t i = 0; i < size.packs; ++i)
      documents.insert(documents.end(), pack.begin(), pack.end());
    SampleRow row(documents);
    if (std::none_of(rows.begin(), rows.end(),
                     [&](const SampleRow& r) { return r.cu_seqlens == row.cu_seqlens; }))
      rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace glmtune::train
