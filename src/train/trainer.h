#pragma once
// The main job: fine-tune as a recipe says.
#include <atomic>
#include <string>
#include <vector>

#include "io/hub_cache.h"
#include "tensor/tensor.h"
#include "train/recipe.h"

namespace glmtune::train {

struct TrainOptions {
  // Number of the signal that asked the run to end, 0 while none has; read at step boundaries. May
  // be null.
  const std::atomic<int>* stop_signal = nullptr;
  bool terminal = false;  // a person watches: a progress line that rewrites itself
  io::HubCache hub;       // where hub ids are looked up
  Device device = Device::kCpu;
};

// Returns an exit status (base/exit_code.h); throws Error.
int run_training(const Recipe& recipe, const TrainOptions& options);

// The device a run takes: the GPU where there is one, else the CPU; *why says why not the GPU.
Device choose_device(std::string* why);

}  // namespace glmtune::train
