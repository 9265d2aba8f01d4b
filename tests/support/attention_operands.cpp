#include "support/attention_operands.h"

namespace glmtune::test {

ops::CausalAttentionBackward backward_of(Operands& o, const ops::CausalAttention& f) {
  const std::int64_t T = f.q.size(0), H = f.q.size(1);
  return {.dq = o.output("dq", {T, H, f.q.size(2)}),
          .dk_nope = o.output("dk_nope", {T, H, f.k_nope.size(2)}),
          .dk_rope = o.output("dk_rope", {T, f.k_rope.size(1)}),
          .dv = o.output("dv", {T, H, f.v.size(2)}),
          .dout = o.input("dout", {T, H, f.v.size(2)}),
          .out = f.out,
          .lse = f.lse,
          .q = f.q,
          .k_nope = f.k_nope,
          .k_rope = f.k_rope,
          .v = f.v,
          .mask = f.mask,
          .documents = f.documents,
          .scale = f.scale};
}

ops::SparseMlaBackward backward_of(Operands& o, const ops::SparseMla& f) {
  const std::int64_t T = f.q_latent.size(0), H = f.q_latent.size(1), S = f.latent.size(0);
  const std::int64_t R = f.latent.size(1), Dr = f.k_rope.size(1);
  return {.dq_latent = o.output("dq_latent", {T, H, R}),
          .dq_rope = o.output("dq_rope", {T, H, Dr}),
          .dlatent = o.output("dlatent", {S, R}),
          .dk_rope = o.output("dk_rope", {S, Dr}),
          .dout_latent = o.input("dout_latent", {T, H, R}),
          .out_latent = f.out_latent,
          .lse = f.lse,
          .q_latent = f.q_latent,
          .q_rope = f.q_rope,
          .latent = f.latent,
          .k_rope = f.k_rope,
          .indices = f.indices,
          .counts = f.counts,
          .scale = f.scale};
}

}  // namespace glmtune::test
