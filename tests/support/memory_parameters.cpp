#include "support/memory_parameters.h"

#include "base/cat.h"
#include "base/error.h"

namespace glmtune {

MemoryParameters::MemoryParameters(const models::GlmConfig& c, DType dtype, Device device) {
  for (const models::TensorSpec& spec : models::expected_tensors(c)) {
    if (spec.pass_through) continue;
    const std::size_t at = spec.name.find(".mlp.experts.");
    if (at == std::string::npos) {
      add(spec.name, spec.shape, spec.always_f32 ? wide(dtype) : dtype, device);
    } else if (spec.name.ends_with(".experts.0.gate_proj.weight")) {
      const std::string prefix = spec.name.substr(0, at) + ".mlp.experts.";
      const std::int64_t e = c.n_routed_experts;
      add(prefix + "gate_up_proj", {e, 2 * c.moe_intermediate_size, c.hidden_size}, dtype, device);
      add(prefix + "down_proj", {e, c.hidden_size, c.moe_intermediate_size}, dtype, device);
    }
  }
}

void MemoryParameters::add(const std::string& name, const std::vector<std::int64_t>& shape,
                           DType dtype, Device device) {
  switch (shape.size()) {
    case 1:
      values_.emplace_back(Shape{shape[0]}, dtype, device);
      break;
    case 2:
      values_.emplace_back(Shape{shape[0], shape[1]}, dtype, device);
      break;
    default:
      values_.emplace_back(Shape{shape[0], shape[1], shape[2]}, dtype, device);
  }
  parameters_.push_back({.name = name, .value = values_.back().view});
}

std::vector<nn::Parameter*> MemoryParameters::all() {
  std::vector<nn::Parameter*> out;
  for (nn::Parameter& p : parameters_) out.push_back(&p);
  return out;
}

nn::Parameter& MemoryParameters::at(const std::string& name) {
  for (nn::Parameter& p : parameters_) {
    if (p.name == name) return p;
  }
  fail(cat("there is no parameter ", name));
}

}  // namespace glmtune
