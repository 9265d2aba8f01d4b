#pragma once
// DecoderLayer: x ← x + Attention(RMSNorm(x)); x ← x + Ffn(RMSNorm(x)) (model.md 3.1).
#include <optional>

#include "nn/mla_attention.h"
#include "nn/moe_mlp.h"

namespace glmtune::nn {

// Decisions of a layer that are kept for the whole step and replayed in its recompute.
struct LayerDecisions {
  Selection selection;  // the layer's own, or that of the nearest earlier full layer
  Routing routing;      // MoE layers only
};

struct DecoderLayer {
  struct Saved {
    Tensor middle;  // [T, C] after the attention's residual; a selected one
    RmsNorm::Saved input_norm, post_norm;
    MlaAttention::Saved attention;
    Mlp::Saved mlp;
    MoeMlp::Saved moe;
  };
  struct Mode {
    bool replay = false;      // decisions are given (recompute)
    bool count_load = false;  // count the tokens each expert receives
    Keep keep = Keep::kNothing;
  };

  RmsNorm input_layernorm, post_attention_layernorm;
  MlaAttention self_attn;
  std::optional<DsaIndexer> indexer;  // full layers; shared ones take an earlier layer's selection
  std::optional<Mlp> mlp;             // dense layers
  std::optional<MoeMlp> moe;          // sparse layers

  // y [T, C]; {}: not wanted (recompute). mode.keep says what `saved` (null with kNothing) gets;
  // what it holds from a forward with Keep::kSelected is not made again.
  void forward(Context& ctx, Tensor y, Tensor x, const PackedRow& row,
               const LayerDecisions& decisions, Mode mode, Saved* saved) const;
  // dx [T, C] overwritten; dx may be dy. The parameters' gradients add.
  void backward(Context& ctx, Tensor dx, Tensor dy, const PackedRow& row,
                const LayerDecisions& decisions, const Saved& saved) const;
};

}  // namespace glmtune::nn
