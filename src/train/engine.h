#pragma once
// Engine: a model on a device with its arenas, and one micro-batch at a time through it. Before a
// row runs, the same pass on the meta device tells what it needs; nothing is allocated in between.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cuda/device.h"
#include "models/causal_lm.h"
#include "models/hf_checkpoint.h"
#include "models/parameter_store.h"
#include "tensor/staging.h"

namespace glmtune::train {

struct MemoryPlan {
  std::size_t saved = 0, scratch = 0;  // peaks of the two arenas, bytes
};

// A row as the data layer gives it: labels are shifted already, cu_seqlens start at 0.
struct RowInput {
  std::span<const std::int32_t> ids, labels, cu_seqlens;
};

class Engine {
 public:
  struct Settings {
    Device device = Device::kCpu;
    bool gradients = false;
    bool expert_load = false;
    Device target = Device::kCpu;  // on the meta device: what plan() plans for
  };

  Engine(std::unique_ptr<models::CausalLm> model, const Settings& settings);

  models::CausalLm& model() { return *model_; }
  models::ParameterStore& parameters() { return store_; }
  Context& context() { return ctx_; }

  // The host's part of a row, ahead of its turn; any thread may call it.
  nn::RowLayout lay_out(const RowInput& row) const;

  // Fills the parameters from a checkpoint.
  void load(const models::HfCheckpoint& checkpoint, const models::ByteCount& progress = {});

  // What a row with these documents needs: exactly what run() will use.
  MemoryPlan plan(const RowInput& row, const models::PassOptions& options,
                  const models::Probe* probe = nullptr);
  // The arenas grow to at least this; run() does so by itself where a row needs more.
  void reserve(const MemoryPlan& plan);
  MemoryPlan capacity() const { return {saved_->capacity(), scratch_->capacity()}; }
  MemoryPlan peak() const { return {saved_->peak(), scratch_->peak()}; }
  void reset_peak();

  // Adds the row's loss to the running sum, and its gradients where options ask for them. On the
  // GPU the work is queued; `row` may go when the call returns.
  void run(const nn::RowLayout& row, const models::PassOptions& options,
           const models::Probe* probe = nullptr);
  void run(const RowInput& row, const models::PassOptions& options,
           const models::Probe* probe = nullptr) {
    run(lay_out(row), options, probe);
  }
  // The running sum of losses on the device, F64 [1].
  Tensor loss() const { return loss_; }
  void zero_loss() { zero_bytes(loss_, ctx_.stream); }
  // The sum of losses since the last call, and zero again. Waits for the device.
  double take_loss();
  // Waits for the device and reports what failed there.
  void synchronize();

 private:
  MemoryPlan plan(const nn::RowLayout& row, const models::PassOptions& options,
                  const models::Probe* probe) const;

  CudaContextPtr cuda_;  // null on the CPU; outlives everything that has device memory
  std::unique_ptr<models::CausalLm> model_;
  const nn::AttentionSettings* attention_;  // the model's
  models::ParameterStore store_;
  std::unique_ptr<Arena> saved_, scratch_;
  OwnedTensor loss_;
  std::unique_ptr<UploadRing> uploads_;
  Context ctx_;
};

}  // namespace glmtune::train
