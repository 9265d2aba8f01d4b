// Whole training steps of a model with random weights: forward + backward + AdamW over a number of
// packs.
//   step_bench CONFIG.json [packs=4] [tokens=1024] [documents per pack=1] [steps=5] [device=cpu]
//   [dtype]
// Prints one line per step and the median.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
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

void randomize(models::CausalLm& model) {
  std::mt19937_64 rng(1);
  std::normal_distribution<float> normal(0, 0.02F);
  model.visit_parameters([&](nn::Parameter& p) {
    OwnedTensor host({p.value.count()}, p.value.dtype, Device::kCpu);
    const bool is_norm = p.name.ends_with("norm.weight");
    dispatch_real(p.value.dtype, [&]<class T>(T) {
      for (std::int64_t i = 0; i < p.value.count(); ++i)
        host.view.as<T>()[i] = static_cast<T>(is_norm ? 1.0F : normal(rng));
    });
    copy_bytes(p.value.reshape({p.value.count()}), host);
  });
}

int run(int argc, char** argv) {
  const auto number = [&](int i, int otherwise) {
    return argc > i ? std::atoi(argv[i]) : otherwise;
  };
  if (argc < 2) {
    std::fprintf(stderr,
                 "usage: step_bench CONFIG.json [packs tokens documents steps device dtype]\n");
    return 1;
  }
  const int packs = number(2, 4), tokens = number(3, 1024), documents = number(4, 1);
  const int steps = number(5, 5);
  const Device device = argc > 6 && std::string(argv[6]) == "cuda" ? Device::kCuda : Device::kCpu;
  const DType dtype = argc > 7 && std::string(argv[7]) == "bf16" ? DType::kBF16 : DType::kF32;
  train::Engine engine(models::make_model(models::read_glm_config(argv[1]), dtype, 1e-5),
                       {.device = device, .gradients = true});
  randomize(engine.model());
  train::OptimizerSettings settings;
  settings.kind = train::OptimizerKind::kAdamW;
  settings.lr = 1e-4;
  train::Optimizer optimizer(engine.model(), settings, 1, device);

  std::mt19937 rng(2);
  std::vector<std::int32_t> cu{0};
  for (int d = 1; d <= documents; ++d) cu.push_back(tokens * d / documents);
  std::vector<double> times;
  for (int step = 0; step < steps; ++step) {
    const double begin = seconds();
    engine.parameters().zero_gradients(engine.context().stream);
    for (int p = 0; p < packs; ++p) {
      std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens)), labels(ids.size());
      for (auto* list : {&ids, &labels})
        for (std::int32_t& x : *list)
          x = static_cast<std::int32_t>(rng() % static_cast<unsigned>(engine.model().vocab_size()));
      engine.run({ids, labels, cu}, {.backward = true, .grad_scale = 1.0 / (packs * tokens)});
    }
    const double norm = optimizer.gradient_norm(engine.context(), 1.0);
    optimizer.update(engine.context(), 1e-4, 0.01, step + 1);
    const double loss = engine.take_loss() / (packs * tokens);
    times.push_back(seconds() - begin);
    std::printf("step %d  %.1f ms  loss %.4f  grad_norm %.4f\n", step, 1e3 * times.back(), loss,
                norm);
  }
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  std::printf("median %.1f ms, %.0f tokens/s\n", 1e3 * median, packs * tokens / median);
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
