#pragma once
// What a run takes in memory, from a dry run on the meta device: no weights are needed.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/glm_config.h"
#include "tensor/tensor.h"
#include "train/engine.h"
#include "train/recipe.h"
#include "train/row_size.h"

namespace glmtune::train {

struct MemoryEstimate {
  std::int64_t parameters = 0;  // in memory (layers, embedding, head; MTP layers are not loaded)
  std::int64_t trained = 0;     // of these, with gradients; with `peft`, the adapters'
  std::uint64_t weights = 0, gradients = 0, optimizer = 0;  // bytes, this rank's share
  std::uint64_t saved = 0, scratch = 0;                     // bytes, activations of one row
  std::uint64_t libraries = 0;                              // their workspace on a GPU
  std::vector<std::string> unmatched_targets;  // of peft.target_modules, that name no module
  std::uint64_t total() const {
    return weights + gradients + optimizer + saved + scratch + libraries;
  }
};

// ranks: how the state is shared out. One rank holds everything; with more, experts lie on
// ep · ep_shard ranks, the rest on all data-parallel and context-parallel ranks, and pipeline
// stages divide the layers evenly (a plan, not a measurement: stages differ).
struct RankShares {
  std::int64_t expert_ranks = 1, dense_ranks = 1, pipeline_stages = 1;
};

// The rows of a rank: the micro-batches, and those of each validation set.
struct RunRows {
  RunRows(RowSize training_rows, std::vector<RowSize> validation_rows = {})
      : training(training_rows), validation(std::move(validation_rows)) {}
  RowSize training;
  std::vector<RowSize> validation;
};

// What the passes of a run over rows of these sizes take at most.
MemoryPlan plan_rows(Engine& engine, const Recipe& recipe, const RunRows& rows);

// dtype: of the parameters. With `peft` the weights are frozen and those of the adapters trained;
// the activations are a full fine-tune's, which keeps no less. target: the device whose scratch
// sizes count.
MemoryEstimate estimate_memory(const models::GlmConfig& config, const Recipe& recipe, DType dtype,
                               const RunRows& rows, const RankShares& shares, Device target);

// Which keys of the recipe would lower what one rank needs, each with the total it leads to and
// whether `available` bytes hold it: "optimizer.master_weights: bf16_stochastic (130.1 GiB, fits)".
// rows_of: the rows with micro-batches of so many packs.
std::string memory_advice(const models::GlmConfig& config, const Recipe& recipe, DType dtype,
                          const std::function<RunRows(std::int64_t)>& rows_of, Device target,
                          std::uint64_t available);

// Bytes a run can still take on a device now; the largest number where the system does not say.
std::uint64_t available_memory(Device device);

}  // namespace glmtune::train
