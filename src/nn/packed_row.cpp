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

PackedRow RowBuilder::build(Context& ctx, Arena& arena, std::span<const std::int32_t> ids,
                            std::span<const std::int32_t> labels,
                            std::span<const std::int32_t> cu_seqlens, std::int64_t vocab_size,
                            const AttentionSettings& settings, std::vector<std::int32_t>& host) {
  check_bounds(cu_seqlens, ids.size());
  if (labels.size() != ids.size())
    fail(cat("a row has ", ids.size(), " tokens but ", labels.size(), " labels"));

  PackedRow row;
  row.tokens = static_cast<std::int64_t>(ids.size());
  // One host array holds everything that travels: ids, positions, label rows, label ids, bounds.
  host.clear();
  host.reserve(ids.size() * 4 + cu_seqlens.size() * 2);
  for (std::size_t t = 0; t < ids.size(); ++t) {
    if (ids[t] < 0 || ids[t] >= vocab_size)
      fail(cat("token id ", ids[t], " at row ", t, " is outside the model's vocabulary of ",
               vocab_size));
    host.push_back(ids[t]);
  }
  for (std::size_t d = 0; d + 1 < cu_seqlens.size(); ++d)
    for (std::int32_t t = cu_seqlens[d]; t < cu_seqlens[d + 1]; ++t)
      host.push_back(t - cu_seqlens[d]);
  const std::size_t rows_at = host.size();
  for (std::size_t t = 0; t < labels.size(); ++t)
    if (labels[t] != -100) host.push_back(static_cast<std::int32_t>(t));
  row.labels = static_cast<std::int64_t>(host.size() - rows_at);
  for (std::size_t t = 0; t < labels.size(); ++t) {
    if (labels[t] == -100) continue;
    if (labels[t] < 0 || labels[t] >= vocab_size)
      fail(cat("label ", labels[t], " at row ", t, " is outside the model's vocabulary of ",
               vocab_size));
    host.push_back(labels[t]);
  }

  std::vector<RowRange> by_path[3];
  for (std::size_t d = 0; d + 1 < cu_seqlens.size(); ++d) {
    const RowRange r{cu_seqlens[d], cu_seqlens[d + 1]};
    const AttentionPath path = choose_path(r.size(), settings);
    by_path[static_cast<std::size_t>(path)].push_back(r);
    if (path == AttentionPath::kGather) continue;
    if (!row.expanded.empty() && row.expanded.back().end == r.begin)
      row.expanded.back().end = r.end;
    else
      row.expanded.push_back(r);
  }
  const std::size_t bounds_at = host.size();
  for (const std::size_t path : {std::size_t{0}, std::size_t{1}})
    for (const RowRange& r : by_path[path]) {
      host.push_back(static_cast<std::int32_t>(r.begin));
      host.push_back(static_cast<std::int32_t>(r.end));
    }
  row.gather = by_path[2];
  for (const RowRange& r : row.gather) row.gather_rows += r.size();
  row.selecting = by_path[1];
  row.selecting.insert(row.selecting.end(), row.gather.begin(), row.gather.end());

  const auto total = static_cast<std::int64_t>(host.size());
  const Tensor all = arena.make({total}, DType::kI32);
  copy_bytes(all, Tensor::dense(host.data(), {total}, DType::kI32, Device::kCpu), ctx.stream);
  std::int64_t at = 0;
  const auto take = [&](std::int64_t n) {
    at += n;
    return all.rows(at - n, at);
  };
  row.ids = take(row.tokens);
  row.positions = take(row.tokens);
  row.label_rows = take(row.labels);
  row.label_ids = take(row.labels);
  const std::int32_t* bounds = host.data() + bounds_at;
  const auto documents = [&](const std::vector<RowRange>& list) {
    ops::Documents d;
    d.count = static_cast<std::int64_t>(list.size());
    d.bounds = take(2 * d.count).reshape({d.count, 2});
    d.host = bounds;
    bounds += 2 * d.count;
    for (const RowRange& r : list) d.max_length = std::max(d.max_length, r.size());
    return d;
  };
  row.dense = documents(by_path[0]);
  row.masked = documents(by_path[1]);
  row.masked_max_length = row.masked.max_length;
  return row;
}

}  // namespace glmtune::nn
