#include "ops/router.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/cat.h"
#include "ops/expect.h"
#include "ops/fast_math.h"
#include "ops/radix_sort.h"
#include "ops/rows_of.h"

namespace glmtune::ops {
namespace {

using enum DType;

// The best few values seen, larger first, of equal ones the first to come. NaN loses to numbers.
template <class W>
class Best {
 public:
  explicit Best(std::int64_t count)
      : values_(static_cast<std::size_t>(count)), indices_(static_cast<std::size_t>(count)) {}

  void clear() { size_ = 0; }
  void offer(W value, std::int32_t index) {
    if (std::isnan(value)) value = -std::numeric_limits<W>::infinity();
    std::size_t at = size_;
    while (at > 0 && values_[at - 1] < value) --at;
    if (at == values_.size()) return;
    if (size_ < values_.size()) ++size_;
    for (std::size_t i = size_ - 1; i > at; --i) {
      values_[i] = values_[i - 1];
      indices_[i] = indices_[i - 1];
    }
    values_[at] = value;
    indices_[at] = index;
  }
  std::size_t size() const { return size_; }
  W value(std::size_t i) const { return values_[i]; }
  std::int32_t index(std::size_t i) const { return indices_[i]; }

 private:
  std::vector<W> values_;
  std::vector<std::int32_t> indices_;
  std::size_t size_ = 0;
};

// Chooses K of E experts for one token, by its scores.
template <class W>
class Chooser {
 public:
  explicit Chooser(const RouterTopk& op)
      : op_(op),
        experts_(op.expert_ids.size(1)),
        groups_(op.topk_group),
        two_(std::min<std::int64_t>(2, op.scores.size(1) / op.n_group)),
        kept_(static_cast<std::size_t>(op.n_group), true) {}

  void choose(const W* scores, std::int32_t* ids) {
    const float* bias = op_.bias.as<float>();
    const std::int64_t per_group = op_.scores.size(1) / op_.n_group;
    if (op_.topk_group < op_.n_group) {
      groups_.clear();
      for (std::int64_t g = 0; g < op_.n_group; ++g) {
        two_.clear();
        for (std::int64_t e = g * per_group; e < (g + 1) * per_group; ++e)
          two_.offer(scores[e] + W(bias[e]), 0);
        W sum = 0;
        for (std::size_t i = 0; i < two_.size(); ++i) sum += two_.value(i);
        groups_.offer(sum, static_cast<std::int32_t>(g));
      }
      std::fill(kept_.begin(), kept_.end(), false);
      for (std::size_t i = 0; i < groups_.size(); ++i)
        kept_[static_cast<std::size_t>(groups_.index(i))] = true;
    }
    experts_.clear();
    for (std::int64_t e = 0; e < op_.scores.size(1); ++e)
      if (kept_[static_cast<std::size_t>(e / per_group)])
        experts_.offer(scores[e] + W(bias[e]), static_cast<std::int32_t>(e));
    for (std::size_t i = 0; i < experts_.size(); ++i) ids[i] = experts_.index(i);
  }

 private:
  const RouterTopk& op_;
  Best<W> experts_, groups_, two_;
  std::vector<bool> kept_;
};

void expect_experts_inside(const char* op, const Tensor& ids, std::int64_t E) {
  for (std::int64_t t = 0; t < ids.size(0); ++t)
    for (std::int64_t j = 0; j < ids.size(1); ++j)
      if (const std::int32_t e = ids.row<std::int32_t>(t)[j]; e < 0 || e >= E)
        fail(cat(op, ": expert_ids[", t, ", ", j, "] is ", e, ", expected 0 to ", E - 1));
}

}  // namespace

void RouterTopk::check() const {
  expect_shape("RouterTopk", "logits", logits, {kAny, kAny});
  expect_dtype("RouterTopk", "logits", logits, {kF64, kF32});
  const std::int64_t T = logits.size(0), E = logits.size(1);
  expect_same("RouterTopk", "scores", scores, "logits", logits);
  expect("RouterTopk", "expert_ids", expert_ids, {T, kAny}, kI32);
  const std::int64_t K = expert_ids.size(1);
  expect("RouterTopk", "weights", weights, {T, K}, logits.dtype);
  expect("RouterTopk", "bias", bias, {E}, kF32);
  if (n_group < 1 || E % n_group != 0 || topk_group < 1 || topk_group > n_group)
    fail(cat("RouterTopk: topk_group ", topk_group, " of n_group ", n_group,
             " groups, expected groups that divide the ", E, " experts"));
  if (K > topk_group * (E / n_group))
    fail(cat("RouterTopk: ", K, " experts a token, expected at most the ",
             topk_group * (E / n_group), " of ", topk_group, " groups"));
}

void run_cpu(const RouterTopk& op, Tensor) {
  const std::int64_t T = op.logits.size(0), E = op.logits.size(1), K = op.expert_ids.size(1);
  if (op.replay) expect_experts_inside("RouterTopk", op.expert_ids, E);
  dispatch_real(op.logits.dtype, [&]<class W>(W) {
    if constexpr (std::is_same_v<W, BFloat16>) {
      fail("RouterTopk: BF16 logits");
    } else {
#pragma omp parallel if (op.logits.count() > kParallelElements)
      {
        Chooser<W> chooser(op);
#pragma omp for
        for (std::int64_t t = 0; t < T; ++t) {
          const W* logits = op.logits.row<W>(t);
          W* scores = op.scores.row<W>(t);
#pragma omp simd
          for (std::int64_t e = 0; e < E; ++e) scores[e] = sigmoid(logits[e]);
          std::int32_t* ids = op.expert_ids.row<std::int32_t>(t);
          if (!op.replay) chooser.choose(scores, ids);
          W sum = 0;
          for (std::int64_t j = 0; j < K; ++j) sum += scores[ids[j]];
          const W factor = W(op.scaling) / (op.norm_topk_prob ? sum + W(1e-20) : W(1));
          W* weights = op.weights.row<W>(t);
          for (std::int64_t j = 0; j < K; ++j) weights[j] = scores[ids[j]] * factor;
        }
      }
    }
  });
}

void RouterTopkBackward::check() const {
  expect_shape("RouterTopkBackward", "scores", scores, {kAny, kAny});
  expect_dtype("RouterTopkBackward", "scores", scores, {kF64, kF32});
  expect_same("RouterTopkBackward", "dlogits", dlogits, "scores", scores);
  expect("RouterTopkBackward", "expert_ids", expert_ids, {scores.size(0), kAny}, kI32);
  expect("RouterTopkBackward", "dweights", dweights, {scores.size(0), expert_ids.size(1)},
         scores.dtype);
}

void run_cpu(const RouterTopkBackward& op, Tensor) {
  const std::int64_t T = op.scores.size(0), E = op.scores.size(1), K = op.expert_ids.size(1);
  expect_experts_inside("RouterTopkBackward", op.expert_ids, E);
  dispatch_real(op.scores.dtype, [&]<class W>(W) {
    if constexpr (std::is_same_v<W, BFloat16>) {
      fail("RouterTopkBackward: BF16 scores");
    } else {
#pragma omp parallel for if (op.scores.count() > kParallelElements)
      for (std::int64_t t = 0; t < T; ++t) {
        const W *scores = op.scores.row<W>(t), *dweights = op.dweights.row<W>(t);
        const std::int32_t* ids = op.expert_ids.row<std::int32_t>(t);
        W* dlogits = op.dlogits.row<W>(t);
        std::fill_n(dlogits, E, W(0));
        W sum = 0, dot = 0;
        for (std::int64_t j = 0; j < K; ++j) {
          sum += scores[ids[j]];
          dot += dweights[j] * scores[ids[j]];
        }
        sum += W(1e-20);
        for (std::int64_t j = 0; j < K; ++j) {
          const W s = scores[ids[j]];
          const W dscore = op.norm_topk_prob ? W(op.scaling) / sum * (dweights[j] - dot / sum)
                                             : W(op.scaling) * dweights[j];
          dlogits[ids[j]] = dscore * s * (W(1) - s);
        }
      }
    }
  });
}

void ExpertSort::check() const {
  expect("ExpertSort", "expert_ids", expert_ids, {kAny, kAny}, kI32);
  expect_same("ExpertSort", "row_of_slot", row_of_slot, "expert_ids", expert_ids);
  expect("ExpertSort", "slot_of_row", slot_of_row, {expert_ids.count()}, kI32);
  expect("ExpertSort", "offsets", offsets, {kAny}, kI32);
  if (offsets.size(0) < 2) fail("ExpertSort: offsets are " + offsets.shape_string());
}

std::size_t ExpertSort::workspace_bytes(Device device) const {
  return device == Device::kCpu ? 0 : radix_sort_bytes(expert_ids.count());
}

void run_cpu(const ExpertSort& op, Tensor) {
  const std::int64_t T = op.expert_ids.size(0), K = op.expert_ids.size(1);
  const std::int64_t E = op.offsets.size(0) - 1;
  expect_experts_inside("ExpertSort", op.expert_ids, E);
  auto* offsets = op.offsets.as<std::int32_t>();
  auto* slot_of_row = op.slot_of_row.as<std::int32_t>();
  std::fill_n(offsets, E + 1, 0);
  for (std::int64_t t = 0; t < T; ++t)
    for (std::int64_t j = 0; j < K; ++j) ++offsets[op.expert_ids.row<std::int32_t>(t)[j] + 1];
  for (std::int64_t e = 0; e < E; ++e) offsets[e + 1] += offsets[e];
  std::vector<std::int32_t> next(offsets, offsets + E);
  for (std::int64_t t = 0; t < T; ++t)
    for (std::int64_t j = 0; j < K; ++j) {
      const auto e = static_cast<std::size_t>(op.expert_ids.row<std::int32_t>(t)[j]);
      const std::int32_t row = next[e]++;
      op.row_of_slot.row<std::int32_t>(t)[j] = row;
      slot_of_row[row] = static_cast<std::int32_t>(t * K + j);
    }
}

void AddExpertLoad::check() const {
  expect("AddExpertLoad", "load", load, {kAny}, kI64);
  expect("AddExpertLoad", "offsets", offsets, {load.size(0) + 1}, kI32);
}

void run_cpu(const AddExpertLoad& op, Tensor) {
  const auto* offsets = op.offsets.as<std::int32_t>();
  for (std::int64_t e = 0; e < op.load.size(0); ++e)
    op.load.as<std::int64_t>()[e] += offsets[e + 1] - offsets[e];
}

void UpdateRouterBias::check() const {
  expect("UpdateRouterBias", "bias", bias, {kAny}, kF32);
  expect("UpdateRouterBias", "load", load, {bias.size(0)}, kI64);
  if (gate.defined()) expect("UpdateRouterBias", "gate", gate, {1}, kF64);
}

void run_cpu(const UpdateRouterBias& op, Tensor) {
  if (op.gate.defined() && std::isnan(*op.gate.as<double>())) return;
  const std::int64_t E = op.load.size(0);
  const auto* load = op.load.as<std::int64_t>();
  std::int64_t total = 0;
  for (std::int64_t e = 0; e < E; ++e) total += load[e];
  // mean − load has the sign of total − E·load, which is exact.
  for (std::int64_t e = 0; e < E; ++e) {
    const std::int64_t difference = total - E * load[e];
    const float sign = difference > 0 ? 1.0f : (difference < 0 ? -1.0f : 0.0f);
    op.bias.as<float>()[e] += static_cast<float>(op.factor) * sign;
  }
}

}  // namespace glmtune::ops
