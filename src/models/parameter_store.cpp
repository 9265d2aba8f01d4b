#include "models/parameter_store.h"

namespace glmtune::models {
namespace {

// Lays tensors end to end in one buffer, each on a 256-byte boundary.
class Layout {
 public:
  void place(Tensor& t, const Buffer* buffer) {
    if (buffer != nullptr) {
      t.device = buffer->device();
      t.data = buffer->data() == nullptr ? nullptr : buffer->data() + top_;
    }
    top_ += (t.bytes() + 255) / 256 * 256;
  }
  std::size_t bytes() const { return top_; }

 private:
  std::size_t top_ = 0;
};

void zero(const Buffer& b, void* stream) {
  zero_bytes(Tensor::dense(b.data(), {static_cast<std::int64_t>(b.size())}, DType::kU8, b.device()),
             stream);
}

Tensor like(const Tensor& t, DType dtype) {
  Tensor r = t;
  r.dtype = dtype;
  r.data = nullptr;
  return r;
}

}  // namespace

ParameterStore::ParameterStore(CausalLm& model, const Settings& settings) {
  // Two passes over the same layout: sizes, then addresses.
  for (const bool assign : {false, true}) {
    Layout values, gradients, loads;
    model.visit_parameters([&](nn::Parameter& p) {
      values.place(p.value, assign ? &values_ : nullptr);
      if (!settings.gradients || !p.trainable) return;
      Tensor grad = like(p.value, wide(p.value.dtype));
      gradients.place(grad, assign ? &gradients_ : nullptr);
      if (!assign) return;
      p.grad = grad;
      p.grad_begun = &parts_.emplace_back(Gradient{.memory = grad, .begun = true}).begun;
    });
    if (settings.expert_load)
      model.visit_routers([&](std::int64_t, nn::Router& r) {
        r.load = like(r.e_score_correction_bias.value, DType::kI64);
        loads.place(r.load, assign ? &loads_ : nullptr);
      });
    if (assign) break;
    values_ = Buffer(values.bytes(), settings.device);
    gradients_ = Buffer(gradients.bytes(), settings.device);
    loads_ = Buffer(loads.bytes(), settings.device);
    zero(values_, nullptr);
    zero(gradients_, nullptr);
    zero(loads_, nullptr);
  }
  // Tied heads take over the embedding's views.
  model.visit_parameters([](nn::Parameter&) {});
}

void ParameterStore::start_gradients() {
  for (Gradient& g : parts_) g.begun = false;
}

void ParameterStore::complete_gradients(void* stream) {
  for (Gradient& g : parts_) {
    if (!g.begun) zero_bytes(g.memory, stream);
    g.begun = true;
  }
}

void ParameterStore::zero_gradients(void* stream) {
  zero(gradients_, stream);
  for (Gradient& g : parts_) g.begun = true;
}

void ParameterStore::zero_expert_load(void* stream) {
  zero(loads_, stream);
}

}  // namespace glmtune::models
