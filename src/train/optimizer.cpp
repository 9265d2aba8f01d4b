#include "train/optimizer.h"

#include <cmath>

#include "base/cat.h"
#include "base/error.h"
#include "train/name_pattern.h"

namespace glmtune::train {
namespace {

// Which of the recipe's overrides decides for a parameter.
class Groups {
 public:
  explicit Groups(const std::vector<ParamGroupOverride>& overrides) : overrides_(overrides) {
    for (const ParamGroupOverride& o : overrides) {
      try {
        groups_.push_back({.pattern = NamePattern(o.pattern)});
      } catch (const Error& e) {
        fail(cat("optimizer.param_group_overrides: pattern '", o.pattern, "': ", e.what()));
      }
    }
  }

  // The first whose pattern is found in the name; null where none is.
  const ParamGroupOverride* of(const nn::Parameter& p) {
    const ParamGroupOverride* decides = nullptr;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      Group& g = groups_[i];
      if (!g.pattern.found_in(p.name)) continue;
      if (!p.trainable) {
        g.found_in_frozen = p.name;
      } else if (decides == nullptr) {
        decides = &overrides_[i];
        g.decides = true;
      } else if (g.found_behind.empty()) {
        g.found_behind = decides->pattern;
      }
    }
    return decides;
  }

  // After all parameters: Error for a pattern that decides for none.
  void check_all_decide() const {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const Group& g = groups_[i];
      if (g.decides) continue;
      std::string why = "it is found in no parameter's name";
      if (!g.found_behind.empty())
        why = cat("pattern '", g.found_behind,
                  "', which stands before it, decides where it is found");
      else if (!g.found_in_frozen.empty())
        why = cat("it is found only in names of parameters that are not trained, such as ",
                  g.found_in_frozen);
      fail(cat("optimizer.param_group_overrides: pattern '", overrides_[i].pattern,
               "' decides for no parameter: ", why));
    }
  }

 private:
  struct Group {
    NamePattern pattern;
    bool decides = false;
    std::string found_in_frozen = {}, found_behind = {};
  };
  const std::vector<ParamGroupOverride>& overrides_;
  std::vector<Group> groups_;
};

}  // namespace

void Optimizer::check_settings(const OptimizerSettings& settings, Device device) {
  if (settings.master_weights == MasterWeights::kBf16 && device == Device::kCuda &&
      settings.exp_avg_dtype != settings.exp_avg_sq_dtype)
    fail(cat("optimizer.exp_avg_sq_dtype is ", name_of(settings.exp_avg_sq_dtype),
             " and optimizer.exp_avg_dtype ", name_of(settings.exp_avg_dtype),
             "; on a GPU both moments have one type: give both keys the same"));
}

void Optimizer::check_overrides(models::CausalLm& model, const OptimizerSettings& settings) {
  Groups groups(settings.overrides);
  model.visit_parameters([&](nn::Parameter& p) { groups.of(p); });
  groups.check_all_decide();
}

Optimizer::Optimizer(models::CausalLm& model, const OptimizerSettings& settings, std::uint64_t seed,
                     Device device)
    : settings_(settings),
      seed_(seed),
      sum_squares_({1}, DType::kF64, device),
      clip_factor_({1}, DType::kF64, device) {
  check_settings(settings, device);
  Groups groups(settings.overrides);
  const bool low_precision_state = settings.master_weights == MasterWeights::kBf16;
  std::size_t bytes = 0;
  std::vector<std::size_t> offsets;
  const auto place = [&](const Tensor& like, DType dtype) {
    Tensor t = like;
    t.dtype = dtype;
    t.device = device;
    t.data = nullptr;
    offsets.push_back(bytes);
    bytes += (t.bytes() + 255) / 256 * 256;
    return t;
  };
  model.visit_parameters([&](nn::Parameter& p) {
    const ParamGroupOverride* rates = groups.of(p);
    if (!p.trainable) return;
    check(p.grad.defined(), "an optimizer needs gradients");
    trainable_ += p.value.count();
    ops::AdamItem item{.param = p.value, .remainder = {}, .grad = p.grad, .m = {}, .v = {}};
    const bool is_bf16 = p.value.dtype == DType::kBF16;
    item.m = place(p.value,
                   is_bf16 && low_precision_state ? settings.exp_avg_dtype : wide(p.value.dtype));
    item.v = place(
        p.value, is_bf16 && low_precision_state ? settings.exp_avg_sq_dtype : wide(p.value.dtype));
    if (is_bf16 && !low_precision_state) item.remainder = place(p.value, DType::kU16);
    if (rates != nullptr) {
      item.lr_mult = rates->lr_mult;
      item.wd_mult = rates->wd_mult;
    }
    names_.push_back(p.name);
    items_.push_back(item);
    gradients_.push_back(p.grad);
  });
  groups.check_all_decide();
  memory_ = Buffer(bytes, device);
  std::size_t next = 0;
  for (ops::AdamItem& item : items_)
    for (Tensor* t : {&item.m, &item.v, &item.remainder})
      if (t->defined()) {
        if (memory_.data() != nullptr) t->data = memory_.data() + offsets[next];
        ++next;
        zero_bytes(*t);
      }
}

void Optimizer::sum_squares_of(Context& ctx, std::span<const Tensor> items) {
  zero_bytes(sum_squares_, ctx.stream);
  run(ctx, ops::SumSquares{.out = sum_squares_, .items = items});
}

double Optimizer::read_sum_squares(Context& ctx) const {
  const OwnedTensor host({1}, DType::kF64, Device::kCpu);
  copy_bytes(host, sum_squares_, ctx.stream);
  return *host.view.as<double>();
}

void Optimizer::measure(Context& ctx, Tensor loss, double max_norm) {
  sum_squares_of(ctx, gradients_);
  run(ctx,
      ops::ClipFactor{
          .factor = clip_factor_, .sum_squares = sum_squares_, .loss = loss, .max_norm = max_norm});
}

double Optimizer::gradient_norm(Context& ctx, double max_norm) {
  measure(ctx, {}, max_norm);
  return std::sqrt(read_sum_squares(ctx));
}

bool Optimizer::all_finite(Context& ctx, Tensor t) {
  sum_squares_of(ctx, std::span(&t, 1));
  return std::isfinite(read_sum_squares(ctx));
}

std::size_t Optimizer::scratch_bytes(Device target) {
  return ops::SumSquares{.out = sum_squares_, .items = gradients_}.workspace_bytes(target);
}

void Optimizer::update(Context& ctx, double lr, double weight_decay, std::int64_t step) {
  run(ctx, ops::Adam{.items = items_,
                     .grad_scale = clip_factor_,
                     .lr = lr,
                     .beta1 = settings_.beta1,
                     .beta2 = settings_.beta2,
                     .eps = settings_.eps,
                     .weight_decay = weight_decay,
                     .step = step,
                     .decoupled = settings_.kind == OptimizerKind::kAdamW,
                     .bias_correction = settings_.bias_correction,
                     .stochastic_rounding = settings_.stochastic_rounding,
                     .round_each_operation = settings_.round_each_operation,
                     .seed = seed_});
}

void Optimizer::visit_state(const std::function<void(const std::string&, Tensor)>& visit) {
  for (std::size_t i = 0; i < items_.size(); ++i) {
    visit(names_[i] + ".exp_avg", items_[i].m);
    visit(names_[i] + ".exp_avg_sq", items_[i].v);
    if (items_[i].remainder.defined()) visit(names_[i] + ".remainder", items_[i].remainder);
  }
}

}  // namespace glmtune::train
