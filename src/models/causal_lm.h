#pragma once
// CausalLm: what the trainer, verify and the checkpoint know of a model. No rank, stream or run
// option lives in it.
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "nn/dsa_indexer.h"
#include "nn/packed_row.h"
#include "nn/parameter.h"
#include "nn/router.h"
#include "tensor/context.h"

namespace glmtune::models {

// What of a layer's activations is kept for the backward.
enum class Recompute : std::uint8_t {
  kNone,       // everything
  kSelective,  // as kFull, and what takes long to compute per byte (docs/decisions/0008)
  kFull,       // the layer's input and its decisions (selected keys, routing); the rest is computed
               // again
};

struct PassOptions {
  bool backward = false;  // also gradients of grad_scale · loss, added to the parameters' grads
                          // (nn/parameter.h)
  double grad_scale = 1;  // 1 / label tokens of the global batch
  Recompute recompute = Recompute::kNone;
  bool count_load = false;  // add this row's tokens per expert to the routers' load
};

// Callbacks that see activations pass by (verify, tests). The tensors die when the call returns.
struct Probe {
  // hidden(N, x): x [T, C], N < layers: the input of layer N; N = layers: the state after the final
  // norm.
  std::function<void(std::int64_t, Tensor)> hidden;
  // selection(N, row, s): the keys that layer N attends to in documents longer than index_topk;
  // layers that share an earlier one's are given the same.
  std::function<void(std::int64_t, const nn::PackedRow&, const nn::Selection&)> selection;
  // experts(N, ids): the experts of MoE layer N, I32 [T, K] in no particular order.
  std::function<void(std::int64_t, Tensor)> experts;
  // logits(z): of every row, [T, V]; computed only when asked for.
  std::function<void(Tensor)> logits;
};

class CausalLm {
 public:
  virtual ~CausalLm() = default;

  virtual std::int64_t vocab_size() const = 0;
  // Every parameter once, in the checkpoint's order of layers; tied heads are visited once.
  virtual void visit_parameters(const nn::ParameterVisitor& visit) = 0;
  // The routers of the MoE layers with their layer numbers.
  virtual void visit_routers(const std::function<void(std::int64_t, nn::Router&)>& visit) = 0;

  // How documents choose their attention path.
  virtual nn::AttentionSettings& attention() = 0;

  // One micro-batch: loss_sum F64 [1] += Σ cross-entropy over the row's labels; gradients on
  // request. On the meta device the same call gives the arenas' peaks.
  virtual void run(Context& ctx, const nn::PackedRow& row, Tensor loss_sum,
                   const PassOptions& options, const Probe* probe) const = 0;
};

// The parameters as a list, in the order of visit_parameters.
inline std::vector<nn::Parameter*> parameters_of(CausalLm& model) {
  std::vector<nn::Parameter*> list;
  model.visit_parameters([&](nn::Parameter& p) { list.push_back(&p); });
  return list;
}

}  // namespace glmtune::models
