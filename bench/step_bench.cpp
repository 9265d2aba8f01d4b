// Whole training steps of a model with random weights over packs of random tokens:
//   step_bench CONFIG.json [packs=4] [tokens=1024] [documents=1] [steps=5] [device=cpu|cuda]
//              [dtype=f32|bf16] [together=0|1] [recompute=0|1|selective] [update=1|0]
//              [state=f32|bf16] [zero=0|1]
// tokens: of a pack; documents: equal ones in each pack; together: all packs in one micro-batch;
// update=0: forward and backward only (no norm, no optimizer); zero=1: gradients are filled with
// zeros and added to, instead of written by their first backward; state: master and moments of bf16
// weights. Prints a line per step, then medians and, on a GPU, the memory that was planned before
// anything was allocated beside what the device says is in use after the last step.
#include <cstdio>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "bench.h"
#include "models/glm_moe_dsa.h"
#include "models/random_init.h"
#include "train/engine.h"
#include "train/memory_estimate.h"
#include "train/optimizer.h"
#include "train/pass_options.h"

namespace {

using namespace glmtune;

using bench::median;
using bench::seconds;

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr,
                 "usage: step_bench CONFIG.json [name=value ...]; see the file's first lines\n");
    return 1;
  }
  const bench::Arguments args(argc, argv, 2,
                              {{"packs", "4"},
                               {"tokens", "1024"},
                               {"documents", "1"},
                               {"steps", "5"},
                               {"device", "cpu"},
                               {"dtype", "f32"},
                               {"together", "0"},
                               {"recompute", "0"},
                               {"update", "1"},
                               {"state", "f32"},
                               {"zero", "0"}});
  const auto number = [&](const char* name) { return static_cast<int>(args.number(name)); };
  const int packs = number("packs"), tokens = number("tokens"), documents = number("documents");
  const Device device =
      args.one_of("device", {"cpu", "cuda"}) == "cuda" ? Device::kCuda : Device::kCpu;
  const bool update = args.is_on("update"), zero = args.is_on("zero");
  const models::GlmConfig config = models::read_glm_config(argv[1]);
  const DType dtype = args.one_of("dtype", {"f32", "bf16"}) == "bf16" ? DType::kBF16 : DType::kF32;
  train::Recipe recipe;
  train::OptimizerSettings& settings = recipe.optimizer;
  settings.kind = train::OptimizerKind::kAdamW;
  if (args.one_of("state", {"f32", "bf16"}) == "bf16") {
    check(dtype == DType::kBF16, "state=bf16: weights of dtype=f32 have no state in bf16");
    settings.master_weights = train::MasterWeights::kBf16;
    settings.stochastic_rounding = true;
    settings.exp_avg_dtype = settings.exp_avg_sq_dtype = DType::kBF16;
  }
  using enum train::ActivationCheckpointing;
  const std::string& recompute = args.one_of("recompute", {"0", "selective", "1"});
  if (recompute == "selective") recipe.distributed.activation_checkpointing = kSelective;
  if (recompute == "1") recipe.distributed.activation_checkpointing = kFull;
  std::mt19937 rng(2);
  const int rows = args.is_on("together") ? 1 : packs;
  const int row_tokens = packs * tokens / rows, row_documents = packs * documents / rows;
  train::MemoryEstimate planned = train::estimate_memory(
      config, recipe, dtype,
      train::RowSize{.tokens = row_tokens,
                     .longest_document = (row_tokens + row_documents - 1) / row_documents,
                     .most_documents = row_documents},
      {}, device);
  if (!update) planned.optimizer = 0;
  // Its own memory, some 500 MB, is no part of any plan.
  const CudaContextPtr before = device == Device::kCuda ? make_cuda_context(0) : nullptr;
  const std::size_t free_before = device == Device::kCuda ? cuda_device_info(0).free_bytes : 0;
  train::Engine engine(models::make_model(config, dtype, 1e-5),
                       {.device = device, .gradients = true});
  models::random_parameters(engine.context(), models::parameters_of(engine.model()), 0.02, 1);
  std::optional<train::Optimizer> optimizer;
  if (update) optimizer.emplace(engine.model(), settings, 1, device);

  std::vector<std::int32_t> cu{0};
  for (int d = 1; d <= row_documents; ++d)
    cu.push_back(static_cast<std::int32_t>(std::int64_t{row_tokens} * d / row_documents));
  models::PassOptions options = train::training_pass(recipe);
  options.grad_scale = 1.0 / (packs * tokens);
  std::vector<double> pass, whole;
  for (int step = 0; step < number("steps"); ++step) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(row_tokens)), labels(ids.size());
    for (auto* list : {&ids, &labels})
      for (std::int32_t& x : *list)
        x = static_cast<std::int32_t>(rng() % static_cast<unsigned>(engine.model().vocab_size()));
    engine.synchronize();
    const double begin = seconds();
    if (zero)
      engine.parameters().zero_gradients(engine.context().stream);
    else
      engine.parameters().start_gradients();
    for (int r = 0; r < rows; ++r) engine.run({ids, labels, cu}, options);
    engine.parameters().complete_gradients(engine.context().stream);
    const double loss = engine.take_loss() / (packs * tokens);
    pass.push_back(seconds() - begin);
    double norm = 0;
    if (update) {
      engine.reserve({.saved = 0, .scratch = optimizer->scratch_bytes(device)});
      norm = optimizer->gradient_norm(engine.context(), 1.0);
      optimizer->update(engine.context(), 1e-4, 0.01, step + 1);
      engine.synchronize();
    }
    whole.push_back(seconds() - begin);
    std::printf("step %d  forward+backward %.1f ms  step %.1f ms  loss %.4f  grad_norm %.4f\n",
                step, 1e3 * pass.back(), 1e3 * whole.back(), loss, norm);
  }
  const train::MemoryPlan memory = engine.capacity();
  std::printf("median: forward+backward %.1f ms, step %.1f ms, %.0f tokens/s\n", 1e3 * median(pass),
              1e3 * median(whole), packs * tokens / median(whole));
  std::printf(
      "memory: weights %.2f GB, gradients %.2f GB, optimizer %.2f GB, saved %.2f GB, scratch %.2f "
      "GB\n",
      1e-9 * static_cast<double>(engine.parameters().value_bytes()),
      1e-9 * static_cast<double>(engine.parameters().gradient_bytes()),
      1e-9 * static_cast<double>(optimizer ? optimizer->state_bytes() : 0),
      1e-9 * static_cast<double>(memory.saved), 1e-9 * static_cast<double>(memory.scratch));
  if (device == Device::kCuda) {
    const double in_use =
        static_cast<double>(free_before) - static_cast<double>(cuda_device_info(0).free_bytes);
    std::printf("device: planned %.2f GB, in use %.2f GB (%+.2f %%)\n",
                1e-9 * static_cast<double>(planned.total()), 1e-9 * in_use,
                100 * (in_use / static_cast<double>(planned.total()) - 1));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::report_errors([&] { return run(argc, argv); });
}
