#pragma once
// ParameterStore: the memory of a model's parameters and gradients.
#include <deque>

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
  // A step's gradients: start, any number of backwards, complete. After the start a gradient holds
  // nothing: the first backward that has a share in it overwrites it, later ones add. complete
  // fills with zeros what no backward began (a router that routes by chance, a batch without
  // labels); only then may gradients be read.
  void start_gradients();
  void complete_gradients(void* stream = nullptr);
  // Zeros, which every backward adds to, until the next start: the same sums, slower.
  void zero_gradients(void* stream = nullptr);
  void zero_expert_load(void* stream = nullptr);

 private:
  struct Gradient {
    Tensor memory;
    bool begun;
  };

  Buffer values_, gradients_, loads_;
  std::deque<Gradient> parts_;  // of gradients_; parameters point into it
};

}  // namespace glmtune::models
