#include "train/engine.h"

#include "base/cat.h"

namespace glmtune::train {
namespace {

constexpr std::size_t kUnlimited = std::size_t{1} << 62;

// Room for what travels with a row: at most an id, a position, a label's row and id, and a
// document's bounds for every token. All of it, so that more documents take no more memory.
Tensor numbers_of(const nn::RowLayout& row, Arena& arena) {
  const auto n = static_cast<std::int64_t>(row.numbers().size());
  return arena.make({6 * row.tokens()}, DType::kI32).rows(0, n);
}

}  // namespace

Engine::Engine(std::unique_ptr<models::CausalLm> model, const Settings& settings)
    : cuda_(settings.device == Device::kCuda ? make_cuda_context(0) : nullptr),
      model_(std::move(model)),
      attention_(&model_->attention()),
      store_(*model_, {.device = settings.device,
                       .gradients = settings.gradients,
                       .expert_load = settings.expert_load}),
      saved_(std::make_unique<Arena>(0, settings.device)),
      scratch_(std::make_unique<Arena>(0, settings.device)),
      loss_({1}, DType::kF64, settings.device),
      uploads_(std::make_unique<UploadRing>(settings.device)) {
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

void Engine::load(const models::HfCheckpoint& checkpoint, const models::ByteCount& progress) {
  checkpoint.load(models::parameters_of(*model_), ctx_.stream, progress);
}

nn::RowLayout Engine::lay_out(const RowInput& row) const {
  return {row.ids, row.labels, row.cu_seqlens, model_->vocab_size(), *attention_};
}

MemoryPlan Engine::plan(const RowInput& row, const models::PassOptions& options,
                        const models::Probe* probe) {
  return plan(lay_out(row), options, probe);
}

MemoryPlan Engine::plan(const nn::RowLayout& row, const models::PassOptions& options,
                        const models::Probe* probe) const {
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
  const Tensor numbers = numbers_of(row, saved);
  const Tensor loss = Tensor::dense(nullptr, {1}, DType::kF64, Device::kMeta);
  model_->run(meta, row.place(numbers), loss, options, &silent);
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

void Engine::run(const nn::RowLayout& row, const models::PassOptions& options,
                 const models::Probe* probe) {
  reserve(plan(row, options, probe));
  const Scope scope(*saved_);
  const Tensor numbers = numbers_of(row, *saved_);
  uploads_->upload(numbers, std::as_bytes(row.numbers()), ctx_.stream);
  model_->run(ctx_, row.place(numbers), loss_, options, probe);
}

double Engine::take_loss() {
  OwnedTensor host({1}, DType::kF64, Device::kCpu);
  copy_bytes(host, loss_, ctx_.stream);
  synchronize();  // reports what failed on the device
  zero_loss();
  return *host.view.as<double>();
}

}  // namespace glmtune::train
