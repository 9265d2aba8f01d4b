#include "ops/embedding.h"
#include "ops/kernel.cuh"
#include "ops/radix_sort.cuh"
#include "ops/rows_cuda.cuh"

namespace glmtune::ops {
namespace {

constexpr int kThreads = 128;

// The block at the first of a run of equal ids adds the run's rows, in the order of t.
template <class W, class T, int V>
__global__ void __launch_bounds__(kThreads)
    embedding_backward_kernel(Rows<W> dtable, Rows<const T> dy, const std::int32_t* ids,
                              const std::int32_t* order, std::int64_t tokens) {
  const std::int64_t first = blockIdx.x;
  const std::int32_t id = ids[first];
  if (first > 0 && ids[first - 1] == id) return;
  if (id < 0 || id >= dtable.rows) return;
  const std::int64_t c = (static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x) * V;
  if (c >= dtable.columns) return;
  W* out = dtable[id] + c;
  float sum[V];
  unpack(load<W, V>(out), sum);
  std::int64_t end = first + 1;
  for (std::int64_t beyond = tokens; end < beyond;) {  // the first later id
    const std::int64_t middle = (end + beyond) / 2;
    if (ids[middle] == id)
      end = middle + 1;
    else
      beyond = middle;
  }
  constexpr int kAhead = 8;  // rows fetched before the first of them is added
  for (std::int64_t i = first; i < end; i += kAhead) {
    Pack<T, V> rows[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a)
      if (i + a < end) rows[a] = load<T, V>(dy[order[i + a]] + c);
#pragma unroll
    for (int a = 0; a < kAhead; ++a)
      if (i + a < end) {
        float v[V];
        unpack(rows[a], v);
#pragma unroll
        for (int k = 0; k < V; ++k) sum[k] += v[k];
      }
  }
  store<W, V>(out, pack<W, V>(sum));
}

}  // namespace

// The host has checked the ids; one outside the table gives NaN here.
void run_cuda(Context& ctx, const Embedding& op, Tensor) {
  gather_rows(ctx, "Embedding", op.y, op.table, op.ids);
}

void run_cuda(Context& ctx, const EmbeddingBackward& op, Tensor workspace) {
  const std::int64_t tokens = op.ids.size(0), columns = op.dtable.size(1);
  if (tokens == 0 || columns == 0) return;
  const SortedKeys sorted = radix_sort(stream_of(ctx), op.ids.as<const std::int32_t>(), tokens,
                                       op.dtable.size(0), workspace.data);
  dispatch_gpu(op.dtable.dtype, "EmbeddingBackward", [&](auto table_tag) {
    dispatch_gpu(op.dy.dtype, "EmbeddingBackward", [&](auto tag) {
      using W = typename decltype(table_tag)::type;
      using T = typename decltype(tag)::type;
      const auto launch = [&](auto kernel, int width) {
        const dim3 grid(static_cast<unsigned>(tokens),
                        static_cast<unsigned>(ceil_div(columns, kThreads * width)));
        kernel<<<grid, kThreads, 0, stream_of(ctx)>>>(Rows<W>(op.dtable), Rows<const T>(op.dy),
                                                      sorted.keys, sorted.index, tokens);
      };
      constexpr int V = std::max(kPackOf<W>, kPackOf<T>);
      if (all_pack({op.dtable, op.dy}, V))
        launch(embedding_backward_kernel<W, T, V>, V);
      else
        launch(embedding_backward_kernel<W, T, 1>, 1);
      CHECK_LAUNCH();
    });
  });
}

}  // namespace glmtune::ops
