#include "nn/packed_row.h"

#include <algorithm>

#include "base/cat.h"

namespace glmtune::nn {
namespace {

void check_bounds(std::span<const std::int32_t> cu, std::size_t tokens) {
  if (cu.size() < 2 || cu.front() != 0 || static_cast<std::size_t>(cu.back()) != tokens)
    fail(cat("cu_seqlens of a row must start at 0 and end at its ", tokens, " tokens"));
  for (std::size_t d = 0; d + 1 < cu.size(); ++d)
    if (cu[d] >= cu[d + 1])
      fail(cat("cu_seqlens must increase: entry ", d + 1, " is ", cu[d + 1], " after ", cu[d]));
}

}  // namespace

AttentionPath choose_path(std::int64_t document_tokens, const AttentionSettings& s) {
  const bool is_short = document_tokens <= s.index_topk;
  if (s.force && (!is_short || s.force_short)) return s.forced;
  if (is_short) return AttentionPath::kDense;
  return document_tokens <= s.masked_max_tokens ? AttentionPath::kMasked : AttentionPath::kGather;
}

RowLayout::RowLayout(std::span<const std::int32_t> ids, std::span<const std::int32_t> labels,
                     std::span<const std::int32_t> cu_seqlens, std::int64_t vocab_size,
                     const AttentionSettings& settings) {
  check_bounds(cu_seqlens, ids.size());
  if (labels.size() != ids.size())
    fail(cat("a row has ", ids.size(), " tokens but ", labels.size(), " labels"));
  row_.tokens = static_cast<std::int64_t>(ids.size());
  numbers_.reserve(ids.size() * 4 + cu_seqlens.size() * 2);
  add_tokens(ids, labels, cu_seqlens, vocab_size);
  add_documents(cu_seqlens, settings);
}

void RowLayout::add_tokens(std::span<const std::int32_t> ids, std::span<const std::int32_t> labels,
                           std::span<const std::int32_t> cu_seqlens, std::int64_t vocab_size) {
  for (std::size_t t = 0; t < ids.size(); ++t) {
    if (ids[t] < 0 || ids[t] >= vocab_size)
      fail(cat("token id ", ids[t], " at row ", t, " is outside the model's vocabulary of ",
               vocab_size));
    numbers_.push_back(ids[t]);
  }
  for (std::size_t d = 0; d + 1 < cu_seqlens.size(); ++d)
    for (std::int32_t t = cu_seqlens[d]; t < cu_seqlens[d + 1]; ++t)
      numbers_.push_back(t - cu_seqlens[d]);
  const std::size_t rows_at = numbers_.size();
  for (std::size_t t = 0; t < labels.size(); ++t)
    if (labels[t] != -100) numbers_.push_back(static_cast<std::int32_t>(t));
  row_.labels = static_cast<std::int64_t>(numbers_.size() - rows_at);
  for (std::size_t t = 0; t < labels.size(); ++t) {
    if (labels[t] == -100) continue;
    if (labels[t] < 0 || labels[t] >= vocab_size)
      fail(cat("label ", labels[t], " at row ", t, " is outside the model's vocabulary of ",
               vocab_size));
    numbers_.push_back(labels[t]);
  }
}

void RowLayout::add_documents(std::span<const std::int32_t> cu_seqlens,
                              const AttentionSettings& settings) {
  std::vector<RowRange> by_path[3];
  for (std::size_t d = 0; d + 1 < cu_seqlens.size(); ++d) {
    const RowRange r{cu_seqlens[d], cu_seqlens[d + 1]};
    const AttentionPath path = choose_path(r.size(), settings);
    by_path[static_cast<std::size_t>(path)].push_back(r);
    if (path == AttentionPath::kGather) continue;
    if (!row_.expanded.empty() && row_.expanded.back().end == r.begin)
      row_.expanded.back().end = r.end;
    else
      row_.expanded.push_back(r);
  }
  for (const std::size_t path : {std::size_t{0}, std::size_t{1}}) {
    ops::Documents& documents = path == 0 ? row_.dense : row_.masked;
    documents.count = static_cast<std::int64_t>(by_path[path].size());
    for (const RowRange& r : by_path[path]) {
      numbers_.push_back(static_cast<std::int32_t>(r.begin));
      numbers_.push_back(static_cast<std::int32_t>(r.end));
      documents.max_length = std::max(documents.max_length, r.size());
    }
  }
  row_.masked_max_length = row_.masked.max_length;
  row_.gather = by_path[2];
  for (const RowRange& r : row_.gather) row_.gather_rows += r.size();
  row_.selecting = by_path[1];
  row_.selecting.insert(row_.selecting.end(), row_.gather.begin(), row_.gather.end());
}

PackedRow RowLayout::place(Tensor numbers) const {
  PackedRow row = row_;
  std::int64_t at = 0;
  const auto take = [&](std::int64_t n) {
    at += n;
    return numbers.rows(at - n, at);
  };
  row.ids = take(row.tokens);
  row.positions = take(row.tokens);
  row.label_rows = take(row.labels);
  row.label_ids = take(row.labels);
  for (ops::Documents* d : {&row.dense, &row.masked}) {
    d->host = numbers_.data() + at;
    d->bounds = take(2 * d->count).reshape({d->count, 2});
  }
  return row;
}

}  // namespace glmtune::nn
