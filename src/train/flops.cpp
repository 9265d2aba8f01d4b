#include "train/flops.h"

#include <algorithm>

namespace glmtune::train {
namespace {

using models::GlmConfig;

double attention_weights(const GlmConfig& c) {
  const auto C = static_cast<double>(c.hidden_size), H = static_cast<double>(c.num_attention_heads);
  return C * static_cast<double>(c.q_lora_rank) +
         static_cast<double>(c.q_lora_rank) * H * static_cast<double>(c.qk_head_dim()) +
         C * static_cast<double>(c.kv_lora_rank + c.qk_rope_head_dim) +
         static_cast<double>(c.kv_lora_rank) * H *
             static_cast<double>(c.qk_nope_head_dim + c.v_head_dim) +
         H * static_cast<double>(c.v_head_dim) * C;
}

double indexer_weights(const GlmConfig& c) {
  return static_cast<double>(c.q_lora_rank * c.index_n_heads * c.index_head_dim) +
         static_cast<double>(c.hidden_size * (c.index_head_dim + c.index_n_heads));
}

}  // namespace

double automodel_flops(const GlmConfig& c, std::int64_t tokens) {
  const auto S = static_cast<double>(tokens), C = static_cast<double>(c.hidden_size);
  const auto H = static_cast<double>(c.num_attention_heads);
  const double attention = H * static_cast<double>(c.qk_head_dim() + c.v_head_dim) * S *
                           static_cast<double>(c.index_topk);
  const double index_products = static_cast<double>(c.index_n_heads * c.index_head_dim) * S * S;
  const double layer =
      attention + S * attention_weights(c) + S * indexer_weights(c) + index_products;
  const double dense = S * 3 * C * static_cast<double>(c.intermediate_size);
  const double moe = S * 3 * C * static_cast<double>(c.moe_intermediate_size) *
                     static_cast<double>(c.num_experts_per_tok + c.n_shared_experts);
  const double head = S * C * static_cast<double>(c.vocab_size);
  double macs = head;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i)
    macs += layer + (c.is_sparse(i) ? moe : dense);
  if (c.num_nextn_predict_layers > 0) macs += layer + moe + head + S * 2 * C * C;
  return 6 * macs;
}

double model_flops(const GlmConfig& c, std::span<const std::int32_t> cu_seqlens,
                   std::int64_t label_tokens) {
  const auto C = static_cast<double>(c.hidden_size), H = static_cast<double>(c.num_attention_heads);
  const auto K = static_cast<double>(c.index_topk);
  double tokens = 0, attended = 0, indexed_tokens = 0, visible = 0;
  for (std::size_t d = 0; d + 1 < cu_seqlens.size(); ++d) {
    const double n = cu_seqlens[d + 1] - cu_seqlens[d];
    const double all = n * (n + 1) / 2;
    tokens += n;
    attended += n <= K ? all : K * (K + 1) / 2 + (n - K) * K;
    if (n <= K) continue;
    indexed_tokens += n;
    visible += all;
  }
  double trained = static_cast<double>(label_tokens) * C * static_cast<double>(c.vocab_size);
  double frozen = 0;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    trained += tokens * attention_weights(c) +
               attended * H * static_cast<double>(c.qk_head_dim() + c.v_head_dim);
    trained += c.is_sparse(i)
                   ? tokens * C *
                         (3 * static_cast<double>(c.moe_intermediate_size) *
                              static_cast<double>(c.num_experts_per_tok + c.n_shared_experts) +
                          static_cast<double>(c.n_routed_experts))
                   : tokens * C * 3 * static_cast<double>(c.intermediate_size);
    if (c.is_full(i))
      frozen += indexed_tokens * indexer_weights(c) +
                visible * static_cast<double>(c.index_n_heads * c.index_head_dim);
  }
  return 6 * trained + 2 * frozen;
}

std::int64_t automodel_tokens(const data::Pack& pack, std::int64_t packed_sequence_size) {
  return packed_sequence_size > 0 ? packed_sequence_size : pack.tokens();
}

}  // namespace glmtune::train
