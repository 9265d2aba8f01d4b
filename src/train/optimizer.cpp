#include "train/optimizer.h"

#include <cmath>

#include "base/cat.h"
#include "base/error.h"
#include "train/name_pattern.h"

namespace glmtune::train {
namespace {

struct Group {
  NamePattern pattern;
  double lr_mult, wd_mult;
  bool used = false;
};

std::vector<Group> compile(const std::vector<ParamGroupOverride>& overrides) {
  std::vector<Group> groups;
  for (const ParamGroupOverride& o : overrides) {
    try {
      groups.push_back({NamePattern(o.pattern), o.lr_mult, o.wd_mult});
    } catch (const Error& e) {
      fail(cat("optimizer.param_group_overrides: pattern '", o.pattern, "': ", e.what()));
    }
  }
  return groups;
}

}  // namespace

void Optimizer::check_settings(const OptimizerSettings& settings, Device device) {
  if (settings.master_weights == MasterWeights::kBf16 && device == Device::kCuda &&
      settings.exp_avg_dtype != settings.exp_avg_sq_dtype)
    fail(cat("optimizer.exp_avg_sq_dtype is ", name_of(settings.exp_avg_sq_dtype),
             " and optimizer.exp_avg_dtype ", name_of(settings.exp_avg_dtype),
             "; on a GPU both moments have one type: give both keys the same"));
}

Optimizer::Optimizer(models::CausalLm& model, const OptimizerSettings& settings, std::uint64_t seed,
                     Device device)
    : settings_(settings),
      seed_(seed),
      sum_squares_({1}, DType::kF64, device),
      clip_factor_({1}, DType::kF64, device) {
  check_settings(settings, device);
  std::vector<Group> groups = compile(settings.overrides);
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
    for (Group& g : groups)
      if (g.pattern.found_in(p.name)) {
        item.lr_mult = g.lr_mult;
        item.wd_mult = g.wd_mult;
        g.used = true;
        break;
      }
    names_.push_back(p.name);
    items_.push_back(item);
    gradients_.push_back(p.grad);
  });
  for (std::size_t i = 0; i < groups.size(); ++i)
    if (!groups[i].used)
      fail(cat("optimizer.param_group_overrides: pattern '", settings.overrides[i].pattern,
               "' decides for no parameter"));
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
