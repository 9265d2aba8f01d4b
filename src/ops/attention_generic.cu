// Launches of the generic attention kernels for both forms.
#include "cuda/check.h"
#include "ops/attention.h"
#include "ops/attention_cuda.cuh"
#include "ops/attention_generic.cuh"

namespace glmtune::ops::generic {
namespace {

constexpr int kRowWarps = 4;

enum class Pass { kForward, kDelta, kQuery };

template <Pass pass, class T, class Keys>
__device__ void row_pass(const Operands<T>& o, const Keys& keys, typename Keys::Range range,
                         float* delta, std::int64_t t, int h) {
  if constexpr (pass == Pass::kForward) forward_row(o, keys, range, t, h);
  if constexpr (pass == Pass::kDelta) delta_row(o, delta, t, h);
  if constexpr (pass == Pass::kQuery) dq_row(o, keys, range, t, h);
}

template <Pass pass, class T>
__global__ void __launch_bounds__(kRowWarps* kWarp)
    document_rows(Operands<T> o, CausalKeys keys, float* delta) {
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * kRowWarps + threadIdx.x / kWarp;
  const int h = static_cast<int>(item % o.heads);
  for (int d = blockIdx.y; d < keys.documents; d += gridDim.y) {
    const auto range = keys.group(d);
    const std::int64_t t = range.begin + item / o.heads;
    if (t < range.end) row_pass<pass>(o, keys, range, delta, t, h);
  }
}

template <class T>
__global__ void __launch_bounds__(kList) document_keys(Operands<T> o, CausalKeys keys) {
  __shared__ KeyBlockShared shared;
  for (int d = blockIdx.y; d < keys.documents; d += gridDim.y) {
    const auto range = keys.group(d);
    const std::int64_t j = range.begin + blockIdx.x;
    if (j < range.end) key_block(o, keys, range, j, shared);
  }
}

template <Pass pass, class T>
__global__ void __launch_bounds__(kRowWarps* kWarp)
    listed_rows(Operands<T> o, ListedKeys keys, float* delta) {
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * kRowWarps + threadIdx.x / kWarp;
  const std::int64_t t = item / o.heads;
  if (t < keys.queries)
    row_pass<pass>(o, keys, {0, keys.queries}, delta, t, static_cast<int>(item % o.heads));
}

template <class T>
__global__ void __launch_bounds__(kList) listed_keys(Operands<T> o, ListedKeys keys) {
  __shared__ KeyBlockShared shared;
  key_block(o, keys, {0, keys.keys}, static_cast<std::int64_t>(blockIdx.x), shared);
}

template <class T>
Rows<T> rows(const Tensor& t, std::int64_t column = 0) {
  if (!t.defined()) return {};
  return {static_cast<T*>(t.data) + column, t.stride(0), t.rank == 3 ? t.stride(1) : 0};
}

unsigned blocks(std::int64_t items, std::int64_t per_block) {
  const std::int64_t n = (items + per_block - 1) / per_block;
  if (n > 0x7fffffff) fail(cat("attention: ", items, " rows are more than one launch can hold"));
  return static_cast<unsigned>(n);
}

void check_sizes(std::int64_t da, std::int64_t db, std::int64_t dv) {
  if (da > kMaxSize || db > kMaxSize || dv > kMaxSize)
    fail(cat("attention on CUDA: head sizes ", da, " + ", db, " / ", dv, " are above ", kMaxSize));
}

CausalKeys causal_keys(const Documents& documents, const Tensor& mask) {
  return {.bounds = documents.bounds.as<std::int32_t>(),
          .documents = static_cast<int>(documents.count),
          .mask = mask.defined() ? mask.as<std::uint32_t>() : nullptr,
          .mask_row = mask.defined() ? mask.stride(0) : 0};
}

ListedKeys listed(const Tensor& indices, const Tensor& counts, std::int64_t queries,
                  std::int64_t keys) {
  return {.indices = indices.as<std::int32_t>(),
          .counts = counts.as<std::int32_t>(),
          .row = indices.stride(0),
          .queries = queries,
          .keys = keys};
}

template <class T, class Op>
Operands<T> causal_operands(const Op& op) {
  const std::int64_t dn = op.k_nope.size(2), dr = op.k_rope.size(1), dv = op.v.size(2);
  check_sizes(dn, dr, dv);
  Operands<T> o;
  o.q_a = rows<const T>(op.q);
  o.q_b = rows<const T>(op.q, dn);
  o.k_a = rows<const T>(op.k_nope);
  o.k_b = rows<const T>(op.k_rope);
  o.v = rows<const T>(op.v);
  o.lse = op.lse.template as<float>();
  o.lse_row = op.lse.stride(0);
  o.heads = static_cast<int>(op.q.size(1));
  o.da = static_cast<int>(dn);
  o.db = static_cast<int>(dr);
  o.dv_size = static_cast<int>(dv);
  o.scale = static_cast<float>(op.scale);
  return o;
}

template <class T, class Op>
Operands<T> listed_operands(const Op& op) {
  const std::int64_t r = op.latent.size(1), dr = op.k_rope.size(1);
  check_sizes(r, dr, r);
  Operands<T> o;
  o.q_a = rows<const T>(op.q_latent);
  o.q_b = rows<const T>(op.q_rope);
  o.k_a = rows<const T>(op.latent);
  o.k_b = rows<const T>(op.k_rope);
  o.v = rows<const T>(op.latent);
  o.lse = op.lse.template as<float>();
  o.lse_row = op.lse.stride(0);
  o.heads = static_cast<int>(op.q_latent.size(1));
  o.da = o.dv_size = static_cast<int>(r);
  o.db = static_cast<int>(dr);
  o.scale = static_cast<float>(op.scale);
  o.value_is_key = true;
  return o;
}

// Calls f(T{}) with the storage type.
template <class F>
void dispatch(DType dtype, const char* op, F&& f) {
  if (dtype == DType::kF32)
    f(float{});
  else if (dtype == DType::kBF16)
    f(__nv_bfloat16{});
  else
    fail(cat(op, " on CUDA works on F32 and BF16, not on ", name_of(dtype)));
}

dim3 document_grid(const Documents& documents, std::int64_t per_document) {
  const auto y = std::min<std::int64_t>(documents.count, 32768);
  return {static_cast<unsigned>(per_document), static_cast<unsigned>(y), 1};
}

}  // namespace

void forward(cudaStream_t stream, const CausalAttention& op) {
  if (op.documents.count == 0) return;
  dispatch(op.q.dtype, "CausalAttention", [&]<class T>(T) {
    auto o = causal_operands<T>(op);
    o.write_out = rows<T>(op.out);
    const auto grid =
        document_grid(op.documents, blocks(op.documents.max_length * o.heads, kRowWarps));
    document_rows<Pass::kForward, T>
        <<<grid, kRowWarps * kWarp, 0, stream>>>(o, causal_keys(op.documents, op.mask), nullptr);
    CUDA_CHECK(cudaGetLastError());
  });
}

void backward(cudaStream_t stream, const CausalAttentionBackward& op, float* delta) {
  if (op.documents.count == 0) return;
  dispatch(op.q.dtype, "CausalAttentionBackward", [&]<class T>(T) {
    auto o = causal_operands<T>(op);
    o.out = rows<const T>(op.out);
    o.dout = rows<const T>(op.dout);
    o.dq_a = rows<T>(op.dq);
    o.dq_b = rows<T>(op.dq, o.da);
    o.dk_a = rows<T>(op.dk_nope);
    o.dk_b = rows<T>(op.dk_rope);
    o.dv = rows<T>(op.dv);
    o.delta = delta;
    o.delta_row = op.q.size(0);
    const auto keys = causal_keys(op.documents, op.mask);
    const auto grid =
        document_grid(op.documents, blocks(op.documents.max_length * o.heads, kRowWarps));
    document_rows<Pass::kDelta, T><<<grid, kRowWarps * kWarp, 0, stream>>>(o, keys, delta);
    document_rows<Pass::kQuery, T><<<grid, kRowWarps * kWarp, 0, stream>>>(o, keys, nullptr);
    document_keys<T>
        <<<document_grid(op.documents, op.documents.max_length), kList, 0, stream>>>(o, keys);
    CUDA_CHECK(cudaGetLastError());
  });
}

void forward(cudaStream_t stream, const SparseMla& op) {
  const std::int64_t queries = op.q_latent.size(0);
  if (queries == 0) return;
  dispatch(op.q_latent.dtype, "SparseMla", [&]<class T>(T) {
    auto o = listed_operands<T>(op);
    o.write_out = rows<T>(op.out_latent);
    listed_rows<Pass::kForward, T>
        <<<blocks(queries * o.heads, kRowWarps), kRowWarps * kWarp, 0, stream>>>(
            o, listed(op.indices, op.counts, queries, op.latent.size(0)), nullptr);
    CUDA_CHECK(cudaGetLastError());
  });
}

void backward(cudaStream_t stream, const SparseMlaBackward& op, float* delta) {
  const std::int64_t queries = op.q_latent.size(0), keys = op.latent.size(0);
  if (keys == 0) return;
  dispatch(op.q_latent.dtype, "SparseMlaBackward", [&]<class T>(T) {
    auto o = listed_operands<T>(op);
    o.out = rows<const T>(op.out_latent);
    o.dout = rows<const T>(op.dout_latent);
    o.dq_a = rows<T>(op.dq_latent);
    o.dq_b = rows<T>(op.dq_rope);
    o.dk_a = rows<T>(op.dlatent);
    o.dk_b = rows<T>(op.dk_rope);
    o.delta = delta;
    o.delta_row = queries;
    const auto lists = listed(op.indices, op.counts, queries, keys);
    if (queries > 0) {
      const unsigned grid = blocks(queries * o.heads, kRowWarps);
      listed_rows<Pass::kDelta, T><<<grid, kRowWarps * kWarp, 0, stream>>>(o, lists, delta);
      listed_rows<Pass::kQuery, T><<<grid, kRowWarps * kWarp, 0, stream>>>(o, lists, nullptr);
    }
    listed_keys<T><<<blocks(keys, 1), kList, 0, stream>>>(o, lists);
    CUDA_CHECK(cudaGetLastError());
  });
}

}  // namespace glmtune::ops::generic
