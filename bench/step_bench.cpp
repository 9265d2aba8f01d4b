// Whole training steps of a model with random weights over packs of random tokens:
//   step_bench CONFIG.json [packs=4] [tokens=1024] [documents=1] [steps=5] [device=cpu|cuda]
//              [dtype=f32|bf16] [together=0|1] [recompute=0|1|selective] [update=1|0]
// tokens: of a pack; documents: equal ones in each pack; together: all packs in one micro-batch;
// update=0: forward and backward only (no norm, no optimizer). Prints a line per step, then
// medians.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "models/glm_moe_dsa.h"
#include "train/engine.h"
#include "train/optimizer.h"

namespace {

using namespace glmtune;

double seconds() {
  using clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(clock::now().time_since_epoch()).count();
}

// Every parameter takes its values from one list of normal numbers, from another place each.
void randomize(models::CausalLm& model) {
  constexpr std::int64_t kList = std::int64_t{1} << 24;
  std::mt19937 rng(1);
  std::normal_distribution<float> normal(0, 0.02F);
  std::optional<OwnedTensor> list;
  std::int64_t at = 0;
  model.visit_parameters([&](nn::Parameter& p) {
    const Tensor flat = p.value.reshape({p.value.count()});
    const bool is_norm = p.name.ends_with("norm.weight");
    if (!list || list->view.dtype != flat.dtype) {
      list.emplace(Shape{kList}, flat.dtype, Device::kCpu);
      dispatch_real(flat.dtype, [&]<class T>(T) {
        for (std::int64_t i = 0; i < kList; ++i)
          list->view.as<T>()[i] = static_cast<T>(normal(rng));
      });
    }
    if (is_norm) {
      const OwnedTensor ones({flat.count()}, flat.dtype, Device::kCpu);
      dispatch_real(flat.dtype, [&]<class T>(T) {
        for (std::int64_t i = 0; i < flat.count(); ++i) ones.view.as<T>()[i] = static_cast<T>(1.0F);
      });
      copy_bytes(flat, ones);
      return;
    }
    for (std::int64_t done = 0; done < flat.count();) {
      at = (at + 1001) % (kList / 2);
      const std::int64_t n = std::min(flat.count() - done, kList - at);
      copy_bytes(flat.rows(done, done + n), list->view.rows(at, at + n));
      done += n;
    }
  });
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr,
                 "usage: step_bench CONFIG.json [name=value ...]; see the file's first lines\n");
    return 1;
  }
  std::map<std::string, std::string> args{{"packs", "4"},    {"tokens", "1024"}, {"documents", "1"},
                                          {"steps", "5"},    {"device", "cpu"},  {"dtype", "f32"},
                                          {"together", "0"}, {"recompute", "0"}, {"update", "1"}};
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t eq = word.find('=');
    if (eq == std::string::npos || !args.contains(word.substr(0, eq))) {
      std::fprintf(stderr, "step_bench: unknown argument %s\n", argv[i]);
      return 1;
    }
    args[word.substr(0, eq)] = word.substr(eq + 1);
  }
  const auto number = [&](const char* name) { return std::atoi(args[name].c_str()); };
  const int packs = number("packs"), tokens = number("tokens"), documents = number("documents");
  const Device device = args["device"] == "cuda" ? Device::kCuda : Device::kCpu;
  const bool update = number("update") != 0;
  train::Engine engine(
      models::make_model(models::read_glm_config(argv[1]),
                         args["dtype"] == "bf16" ? DType::kBF16 : DType::kF32, 1e-5),
      {.device = device, .gradients = true});
  randomize(engine.model());
  train::OptimizerSettings settings;
  settings.kind = train::OptimizerKind::kAdamW;
  std::optional<train::Optimizer> optimizer;
  if (update) optimizer.emplace(engine.model(), settings, 1, device);

  std::mt19937 rng(2);
  const int rows = number("together") != 0 ? 1 : packs;
  const int row_tokens = packs * tokens / rows, row_documents = packs * documents / rows;
  std::vector<std::int32_t> cu{0};
  for (int d = 1; d <= row_documents; ++d)
    cu.push_back(static_cast<std::int32_t>(std::int64_t{row_tokens} * d / row_documents));
  models::PassOptions options{.backward = true, .grad_scale = 1.0 / (packs * tokens)};
  if (args["recompute"] == "selective") options.recompute = models::Recompute::kSelective;
  if (args["recompute"] == "1") options.recompute = models::Recompute::kFull;
  std::vector<double> pass, whole;
  for (int step = 0; step < number("steps"); ++step) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(row_tokens)), labels(ids.size());
    for (auto* list : {&ids, &labels})
      for (std::int32_t& x : *list)
        x = static_cast<std::int32_t>(rng() % static_cast<unsigned>(engine.model().vocab_size()));
    engine.parameters().zero_gradients(engine.context().stream);
    engine.synchronize();
    const double begin = seconds();
    for (int r = 0; r < rows; ++r) engine.run({ids, labels, cu}, options);
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
  std::printf("memory: weights %.2f GB, gradients %.2f GB, saved %.2f GB, scratch %.2f GB\n",
              1e-9 * static_cast<double>(engine.parameters().value_bytes()),
              1e-9 * static_cast<double>(engine.parameters().gradient_bytes()),
              1e-9 * static_cast<double>(memory.saved), 1e-9 * static_cast<double>(memory.scratch));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
