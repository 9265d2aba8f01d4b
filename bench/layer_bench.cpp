// Parts of a model of real width on a CUDA device in BF16, forward and backward:
//   layer_bench CONFIG.json [head] [moe] [tokens=4096] [documents=1] [vocab=154880] [chunk=ROWS]
//               [grads=f32|bf16] [first=0|1]
// head: projection and cross-entropy with every row labelled, beside its three matrix products.
// moe: one MoE layer of the config's widths with an indexer of its own, then one that shares an
// earlier layer's selection. grads: of the parameters' gradients, which are added to; with first=1
// every backward is the first of a step, which writes them.
// Milliseconds first in "burst" (after a second of rest), then "sustained" (after a second of the
// same work, where the card's power limit holds); medians of 10 and 25 runs, one by one.
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/cat.h"
#include "bench.h"
#include "cuda/device.h"
#include "models/glm_moe_dsa.h"
#include "models/random_init.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "train/engine.h"

namespace {

using namespace glmtune;
using bench::Times;

Times measure(CudaContext& device, const std::function<void()>& work) {
  return bench::time_on_device(device, {}, work);
}

void line(const std::string& name, Times t) {
  std::printf("%-64s %9.2f ms %9.2f ms\n", name.c_str(), t.burst, t.sustained);
  std::fflush(stdout);
}

struct Settings {
  std::int64_t tokens = 0, documents = 0, vocab = 0;
  std::int64_t chunk = 0;  // 0: chosen by size
  DType grads = DType::kF32;
  bool first = false;
};

// A device, arenas without a plan, and a row of random tokens.
class Stage {
 public:
  Stage(const Settings& settings, std::size_t saved_bytes, std::size_t scratch_bytes)
      : device(make_cuda_context(0)),
        saved(saved_bytes, Device::kCuda),
        scratch(scratch_bytes, Device::kCuda) {
    ctx.device = ctx.target = Device::kCuda;
    ctx.stream = cuda_stream(*device);
    ctx.cuda = device.get();
    ctx.saved = &saved;
    ctx.scratch = &scratch;
    const auto n = static_cast<std::size_t>(settings.tokens);
    std::vector<std::int32_t> ids(n), cu;
    for (std::size_t t = 0; t < n; ++t)
      ids[t] = static_cast<std::int32_t>(t * 7919 % static_cast<std::size_t>(settings.vocab));
    for (std::int64_t d = 0; d <= settings.documents; ++d)
      cu.push_back(static_cast<std::int32_t>(settings.tokens * d / settings.documents));
    layout_.emplace(ids, ids, cu, settings.vocab, nn::AttentionSettings{.index_topk = 2048});
    const auto count = static_cast<std::int64_t>(layout_->numbers().size());
    const Tensor numbers = saved.make({count}, DType::kI32);
    copy_bytes(numbers, Tensor::dense(const_cast<std::int32_t*>(layout_->numbers().data()), {count},
                                      DType::kI32, Device::kCpu));
    row = layout_->place(numbers);
  }
  Tensor random(Arena& arena, Shape shape, DType dtype, double deviation) {
    const Tensor t = arena.make(shape, dtype);
    run(ctx, ops::RandomNormal{.y = t.reshape({t.count()}), .key = ++key_, .deviation = deviation});
    return t;
  }

  CudaContextPtr device;
  Arena saved, scratch;
  Context ctx;
  nn::PackedRow row;

 private:
  std::optional<nn::RowLayout> layout_;
  std::uint64_t key_ = 0;
};

void bench_head(const models::GlmConfig& config, const Settings& s) {
  const std::int64_t T = s.tokens, C = config.hidden_size, V = s.vocab;
  const std::size_t gib = std::size_t{1} << 30;
  Stage stage(s, 8 * gib, 6 * gib);
  Context& ctx = stage.ctx;
  const Tensor h = stage.random(stage.saved, {T, C}, DType::kBF16, 1.0);
  const Tensor dh = stage.saved.make({T, C}, DType::kBF16);
  const Tensor loss = stage.saved.make({1}, DType::kF64);
  run(ctx, ops::Fill{.x = loss, .value = 0});
  nn::Linear projection;
  projection.weight.value = stage.random(stage.saved, {V, C}, DType::kBF16, 0.02);
  const OwnedTensor grad({V, C}, s.grads, Device::kCuda);
  projection.weight.grad = grad;
  bool begun = true;
  projection.weight.grad_begun = &begun;
  const nn::LmHead head{.chunk_rows = s.chunk > 0 ? s.chunk : nn::LmHead::rows_for(V)};
  const std::string shape = cat(T, " x ", V, " x ", C);
  const Times whole = measure(*stage.device, [&] {
    begun = !s.first;
    head.run(ctx, loss, dh, projection, h, stage.row, 1.0 / static_cast<double>(T));
  });
  line(cat("head + cross-entropy ", shape, ", chunks of ", head.chunk_rows), whole);
  const Tensor z = stage.random(stage.scratch, {T, V}, DType::kBF16, 1e-4);
  const auto product = [&](const char* name, const ops::Matmul& op) {
    const Times t = measure(*stage.device, [&] { run(ctx, op); });
    line(cat("  its product: ", name), t);
    return t;
  };
  const Times f =
      product("logits", {.out = z, .a = h, .b = projection.weight.value, .trans_b = true});
  const Times d = product("input gradient", {.out = dh, .a = z, .b = projection.weight.value});
  const Times w =
      product("weight gradient, adding",
              {.out = projection.weight.grad, .a = z, .b = h, .trans_a = true, .beta = 1.0});
  const Times sum{.burst = f.burst + d.burst + w.burst,
                  .sustained = f.sustained + d.sustained + w.sustained};
  line("  the three products", sum);
  std::printf("  head / products: %.3f burst, %.3f sustained\n", whole.burst / sum.burst,
              whole.sustained / sum.sustained);
}

// The last layer of a model of `types`, which attends with the selection of the first.
void bench_layer(models::GlmConfig config, const Settings& s, bool shared) {
  config.vocab_size = 512;
  config.num_hidden_layers = shared ? 2 : 1;
  using enum models::MlpType;
  using enum models::IndexerType;
  config.mlp_layer_types = {kDense, kSparse};
  config.indexer_types = {kFull, kShared};
  if (!shared) {
    config.mlp_layer_types = {kSparse};
    config.indexer_types = {kFull};
  }
  models::GlmMoeDsa model(config, DType::kBF16, 1e-5);
  models::ParameterStore store(model, {.device = Device::kCuda, .gradients = true});
  const std::size_t gib = std::size_t{1} << 30;
  Stage stage(s, 12 * gib * static_cast<std::size_t>(1 + s.tokens / 8192), 8 * gib);
  Context& ctx = stage.ctx;
  std::vector<nn::Parameter*> parameters;
  model.visit_parameters([&](nn::Parameter& p) {
    if (p.grad.defined()) p.grad.dtype = s.grads;  // the memory is wide enough
    parameters.push_back(&p);
  });
  models::random_parameters(ctx, parameters, 0.02, 1);
  const std::int64_t T = s.tokens, C = config.hidden_size;
  const Tensor x = stage.random(stage.saved, {T, C}, DType::kBF16, 1.0);
  const Tensor y = stage.saved.make({T, C}, DType::kBF16);
  const Tensor dy = stage.random(stage.saved, {T, C}, DType::kBF16, 1e-3);
  const Tensor dx = stage.saved.make({T, C}, DType::kBF16);
  const nn::DecoderLayer& first = model.layers().front();
  const nn::DecoderLayer& layer = model.layers().back();
  nn::LayerDecisions decisions;
  decisions.selection = first.indexer->allocate(stage.saved, stage.row);
  decisions.routing = layer.moe->allocate_routing(stage.saved, T);
  if (shared) {
    const Scope scope(stage.saved);
    first.forward(ctx, y, x, stage.row, decisions, {}, nullptr);
  }
  const auto forward = [&](nn::DecoderLayer::Saved& saved) {
    layer.forward(ctx, y, x, stage.row, decisions, {.keep = nn::Keep::kAll}, &saved);
  };
  const Times only = measure(*stage.device, [&] {
    const Scope scope(stage.saved);
    nn::DecoderLayer::Saved saved;
    forward(saved);
  });
  const Times both = measure(*stage.device, [&] {
    const Scope scope(stage.saved);
    nn::DecoderLayer::Saved saved;
    forward(saved);
    if (s.first) store.start_gradients();
    layer.backward(ctx, dx, dy, stage.row, decisions, saved);
  });
  const std::string name =
      cat("MoE layer, ", shared ? "shared selection" : "own indexer", ", ", s.documents, " x ",
          T / s.documents, ", ", config.n_routed_experts, " experts");
  line(cat(name, ", forward"), only);
  line(cat(name, ", forward + backward"), both);
}

int run_bench(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: layer_bench CONFIG.json [head] [moe] [name=value ...]\n");
    return 1;
  }
  const bench::Arguments args(argc, argv, 2,
                              {{"head", "0"},
                               {"moe", "0"},
                               {"tokens", "4096"},
                               {"documents", "1"},
                               {"vocab", "154880"},
                               {"chunk", "0"},
                               {"grads", "f32"},
                               {"first", "0"}});
  const bool head = args.is_on("head"), moe = args.is_on("moe");
  const std::string& grads = args.one_of("grads", {"f32", "bf16"});
  const Settings s{.tokens = args.number("tokens"),
                   .documents = args.number("documents"),
                   .vocab = args.number("vocab"),
                   .chunk = args.number("chunk"),
                   .grads = grads == "bf16" ? DType::kBF16 : DType::kF32,
                   .first = args.is_on("first")};
  const models::GlmConfig config = models::read_glm_config(argv[1]);
  std::printf("%-64s %12s %12s\n",
              cat("gradients ", name_of(s.grads), s.first ? " written" : " added to").c_str(),
              "burst", "sustained");
  if (head || !moe) bench_head(config, s);
  if (moe || !head)
    for (const bool shared : {false, true}) bench_layer(config, s, shared);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::report_errors([&] { return run_bench(argc, argv); });
}
