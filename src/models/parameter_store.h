#pragma once
// ParameterStore: the memory of a model's parameters and gradients.
#include "models/causal_lm.h"

namespace glmtune::models {

class ParameterStore {
 public:
  struct Settings {
    Device device = Device::kCpu;
    bool gradients = false;    // wide dtype (F32, or F64), zeroed, for trainable parameters
    bool expert_load = false;  // token counts of the routers
  };

  // Gives every parameter of `model` its memory (zeroed); the model must not outlive the store.
  ParameterStore(CausalLm& model, const Settings& settings);

  std::size_t value_bytes() const { return values_.size(); }
  std::size_t gradient_bytes() const { return gradients_.size(); }
  void zero_gradients(void* stream = nullptr);
  void zero_expert_load(void* stream = nullptr);

 private:
  Buffer values_, gradients_, loads_;
};

}  // namespace glmtune::models
