#pragma once
// Parameters in memory as a model holds them (experts stacked), made from a config alone.
#include <deque>
#include <string>
#include <vector>

#include "models/glm_config.h"
#include "nn/parameter.h"

namespace glmtune {

class MemoryParameters {
 public:
  MemoryParameters(const models::GlmConfig& config, DType dtype, Device device = Device::kCpu);

  std::vector<nn::Parameter*> all();
  nn::Parameter& at(const std::string& name);

 private:
  void add(const std::string& name, const std::vector<std::int64_t>& shape, DType dtype,
           Device device);

  std::deque<OwnedTensor> values_;
  std::deque<nn::Parameter> parameters_;
};

}  // namespace glmtune
