#include "train/engine.h"

#include <algorithm>

#include "base/cat.h"

namespace glmtune::train {
namespace {

constexpr std::size_t kUnlimited = std::size_t{1} << 62;

}  // namespace

Engine::Engine(std::unique_ptr<models::CausalLm> model, const Settings& settings)
    : cuda_(settings.device == Device::kCuda ? make_cuda_context(0) : nullptr),
      model_(std::move(model)),
      store_(*model_, {.device = settings.device,
                       .gradients = settings.gradients,
                       .expert_load = settings.expert_load}),
      saved_(std::make_unique<Arena>(0, settings.device)),
      scratch_(std::make_unique<Arena>(0, settings.device)),
      loss_({1}, DType::kF64, settings.device) {
  ctx_.device = settings.device;
  ctx_.target = settings.device == Device::kMeta ? settings.target : settings.device;
  ctx_.saved = saved_.get();
  ctx_.scratch = scratch_.get();
  if (cuda_ == nullptr) return;
  ctx_.cuda = cuda_.get();
  ctx_.stream = cuda_stream(*cuda_);
}

void Engine::synchronize() {
  if (cuda_ != nullptr) cuda_synchronize(*cuda_);
}

void Engine::load(const models::HfCheckpoint& checkpoint) {
  std::vector<nn::Parameter*> parameters;
  model_->visit_parameters([&](nn::Parameter& p) { parameters.push_back(&p); });
  checkpoint.load(parameters, ctx_.stream);
}

void Engine::pass(Context& ctx, const RowInput& row, Tensor loss,
                  const models::PassOptions& options, const models::Probe* probe) {
  const Scope scope(*ctx.saved);
  const nn::PackedRow packed =
      nn::RowBuilder::build(ctx, *ctx.saved, row.ids, row.labels, row.cu_seqlens,
                            model_->vocab_size(), model_->attention(), host_);
  model_->run(ctx, packed, loss, options, probe);
}

MemoryPlan Engine::plan(const RowInput& row, const models::PassOptions& options,
                        const models::Probe* probe) {
  Arena saved(kUnlimited, Device::kMeta), scratch(kUnlimited, Device::kMeta);
  Context meta{.device = Device::kMeta,
               .target = ctx_.target,
               .stream = nullptr,
               .cuda = nullptr,
               .saved = &saved,
               .scratch = &scratch};
  // The probe's callbacks are not called in a dry run, but what it asks for takes memory.
  models::Probe silent;
  if (probe != nullptr && probe->logits) silent.logits = [](Tensor) {};
  pass(meta, row, Tensor::dense(nullptr, {1}, DType::kF64, Device::kMeta), options, &silent);
  return {saved.peak(), scratch.peak()};
}

void Engine::reserve(const MemoryPlan& plan) {
  const auto grow = [&](std::unique_ptr<Arena>& arena, std::size_t bytes) {
    if (bytes <= arena->capacity()) return;
    const Device device = ctx_.device;
    synchronize();
    arena.reset();  // free first: both at once may not fit
    arena = std::make_unique<Arena>(bytes, device);
  };
  grow(saved_, plan.saved);
  grow(scratch_, plan.scratch);
  ctx_.saved = saved_.get();
  ctx_.scratch = scratch_.get();
}

void Engine::reset_peak() {
  saved_->reset_peak();
  scratch_->reset_peak();
}

void Engine::run(const RowInput& row, const models::PassOptions& options,
                 const models::Probe* probe) {
  reserve(plan(row, options, probe));
  pass(ctx_, row, loss_, options, probe);
}

double Engine::take_loss() {
  OwnedTensor host({1}, DType::kF64, Device::kCpu);
  copy_bytes(host, loss_, ctx_.stream);
  synchronize();
  zero_bytes(loss_, ctx_.stream);
  return *host.view.as<double>();
}

SampleRow::SampleRow(std::int64_t packs, std::int64_t tokens, std::int64_t longest_document)
    : ids(static_cast<std::size_t>(packs * tokens), 0),
      labels(static_cast<std::size_t>(packs * tokens), 0),
      cu_seqlens{0} {
  const std::int64_t longest = longest_document > 0 ? std::min(longest_document, tokens) : tokens;
  for (std::int64_t pack = 0; pack < packs; ++pack)
    for (std::int64_t end = 0; end < tokens;) {
      end = std::min(end + longest, tokens);
      cu_seqlens.push_back(static_cast<std::int32_t>(pack * tokens + end));
    }
}

}  // namespace glmtune::train
