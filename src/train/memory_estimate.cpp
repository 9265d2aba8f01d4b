#include "train/memory_estimate.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "cuda/device.h"
#include "models/glm_moe_dsa.h"
#include "train/optimizer.h"
#include "train/pass_options.h"

namespace glmtune::train {
namespace {

// Bytes of one parameter with its gradient and optimizer state.
struct StateBytes {
  std::uint64_t weights = 0, gradients = 0, optimizer = 0;
};

StateBytes state_bytes(const nn::Parameter& p, const OptimizerSettings& optimizer) {
  StateBytes s{.weights = p.value.bytes()};
  if (!p.trainable) return s;
  const auto n = static_cast<std::uint64_t>(p.value.count());
  const DType t = p.value.dtype;
  s.gradients = n * size_of(wide(t));
  const bool low = t == DType::kBF16 && optimizer.master_weights == MasterWeights::kBf16;
  s.optimizer = n * (size_of(low ? optimizer.exp_avg_dtype : wide(t)) +
                     size_of(low ? optimizer.exp_avg_sq_dtype : wide(t)));
  if (t == DType::kBF16 && !low) s.optimizer += n * size_of(DType::kU16);
  return s;
}

}  // namespace

MemoryEstimate estimate_memory(const models::GlmConfig& config, const Recipe& recipe, DType dtype,
                               const SampleRow& row, const RankShares& shares, Device target) {
  Engine engine(models::make_model(config, dtype, recipe.model.latent_norm_eps),
                {.device = Device::kMeta, .gradients = true, .target = target});
  MemoryEstimate e;
  engine.model().visit_parameters([&](nn::Parameter& p) {
    const StateBytes s = state_bytes(p, recipe.optimizer);
    const bool expert = p.name.find(".mlp.experts.") != std::string::npos;
    const auto ranks = static_cast<std::uint64_t>(
        shares.pipeline_stages * (expert ? shares.expert_ranks : shares.dense_ranks));
    e.parameters += p.value.count();
    if (p.trainable) e.trained += p.value.count();
    e.weights += s.weights / ranks;
    e.gradients += s.gradients / ranks;
    e.optimizer += s.optimizer / ranks;
  });
  const MemoryPlan plan = engine.plan(row.input(), training_pass(recipe));
  e.saved = plan.saved / static_cast<std::uint64_t>(shares.pipeline_stages);
  e.scratch = plan.scratch;
  if (target == Device::kCuda) e.libraries = kBlasWorkspaceBytes;
  return e;
}

std::uint64_t available_memory(Device device) {
  if (device == Device::kCuda) return cuda_device_info(0).free_bytes;
  std::ifstream in("/proc/meminfo");
  std::string key, unit;
  for (std::uint64_t kilobytes = 0; in >> key >> kilobytes;) {
    if (key == "MemAvailable:") return kilobytes * 1024;
    std::getline(in, unit);
  }
  return std::numeric_limits<std::uint64_t>::max();
}

}  // namespace glmtune::train
