#pragma once
// BatchLoader: prepares global batches on a thread of its own, ahead of the steps that take them.
// What it has prepared is no position: a run resumes behind the last batch it took.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "data/pack.h"
#include "data/pack_sampler.h"
#include "train/engine.h"

namespace glmtune::train {

// One global batch; the counts are of all of it.
struct StepBatch {
  std::int64_t epoch = 0;
  data::SamplerCursor after;        // where the next batch begins
  std::vector<nn::RowLayout> rows;  // its micro-batches
  std::int64_t tokens = 0;
  std::int64_t tokens_to_last_label = 0;  // without each pack's trailing run of unlabelled tokens
  std::int64_t label_tokens = 0;
  double flops = 0, automodel_flops = 0;  // flops.h
};

class BatchLoader {
 public:
  // All of it must outlive the loader and be safe to call from its thread.
  struct Parts {
    const data::PackSource& source;
    const data::PackSampler& sampler;
    const Engine& engine;
    std::int64_t local_batch_size = 1;  // packs of a micro-batch
    // FLOPs of a pack, honest and by AutoModel's formula; may be empty.
    std::function<std::pair<double, double>(const data::Pack&)> count_flops;
  };

  // `steps` batches from `at` on.
  BatchLoader(Parts parts, data::SamplerCursor at, std::int64_t steps);
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;
  ~BatchLoader();

  // The next batch, in order; throws what went wrong while it was prepared.
  StepBatch next();

 private:
  struct Prepared {
    StepBatch batch;
    std::exception_ptr error;
  };
  StepBatch prepare(data::SamplerCursor at) const;
  void work(data::SamplerCursor at, std::int64_t steps);

  Parts parts_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Prepared> ready_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace glmtune::train
