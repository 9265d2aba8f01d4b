// The whole model on a GPU, at the sizes that the tensor-core kernels take (BF16) and through the
// other kernels (F32): recompute against keeping everything, the plan against the peak.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "cuda/device.h"
#include "models/glm_moe_dsa.h"
#include "models/random_init.h"
#include "ops/elementwise.h"
#include "support/tiny_model.h"
#include "train/engine.h"
#include "train/memory_estimate.h"
#include "train/pass_options.h"

namespace glmtune {
namespace {

using models::PassOptions;
using models::Recompute;
using train::Engine;

constexpr Recompute kRecomputes[] = {Recompute::kNone, Recompute::kSelective, Recompute::kFull};

// GLM-5's heads and indexer; two MoE layers, the last one with the selection of the one before.
models::GlmConfig wide_config() {
  using models::IndexerType;
  using models::MlpType;
  models::GlmConfig c = test::tiny_config();
  c.vocab_size = 500;
  c.hidden_size = 256;
  c.num_hidden_layers = 3;
  c.num_attention_heads = 64;
  c.q_lora_rank = 128;
  c.kv_lora_rank = 512;
  c.qk_nope_head_dim = 192;
  c.qk_rope_head_dim = 64;
  c.v_head_dim = 256;
  c.index_n_heads = 32;
  c.index_head_dim = 128;
  c.index_topk = 64;
  c.indexer_types = {IndexerType::kFull, IndexerType::kFull, IndexerType::kShared};
  c.mlp_layer_types = {MlpType::kDense, MlpType::kSparse, MlpType::kSparse};
  c.intermediate_size = 256;
  c.moe_intermediate_size = 128;
  c.n_routed_experts = 8;
  return c;
}

using Bytes = std::vector<unsigned char>;

std::vector<float> floats(const Bytes& bytes) {
  std::vector<float> list(bytes.size() / sizeof(float));
  std::memcpy(list.data(), bytes.data(), bytes.size());
  return list;
}

class CudaModel : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    std::string why;
    if (cuda_device_count(&why) == 0) GTEST_SKIP() << why;
    engine_ =
        std::make_unique<Engine>(models::make_model(wide_config(), GetParam(), 1e-5),
                                 Engine::Settings{.device = Device::kCuda, .gradients = true});
    std::vector<nn::Parameter*> parameters;
    engine_->model().visit_parameters([&](nn::Parameter& p) { parameters.push_back(&p); });
    models::random_parameters(engine_->context(), parameters, 0.04, 11);
    engine_->model().attention().masked_max_tokens = 400;
  }

  train::RowInput row() const { return {row_.ids, row_.labels, row_.cu_seqlens}; }

  // The loss and every gradient, as bytes.
  std::pair<double, std::vector<Bytes>> run(Recompute recompute) {
    engine_->parameters().zero_gradients(engine_->context().stream);
    engine_->run(row(), {.backward = true, .recompute = recompute});
    return result();
  }

  std::pair<double, std::vector<Bytes>> result() {
    std::pair<double, std::vector<Bytes>> out{engine_->take_loss(), {}};
    engine_->model().visit_parameters([&](nn::Parameter& p) {
      if (!p.trainable) return;
      const std::int64_t n = p.grad.count();
      const OwnedTensor host({n}, p.grad.dtype, Device::kCpu);
      copy_bytes(host, p.grad.reshape({n}), engine_->context().stream);
      const auto* bytes = host.view.as<unsigned char>();
      out.second.emplace_back(bytes, bytes + host.view.bytes());
    });
    return out;
  }

  void expect_same_bits() {
    const auto kept = run(Recompute::kNone);
    EXPECT_GT(kept.first, 0);
    for (const Recompute recompute : kRecomputes) {
      const auto again = run(recompute);
      EXPECT_EQ(kept.first, again.first);
      ASSERT_EQ(kept.second.size(), again.second.size());
      for (std::size_t i = 0; i < kept.second.size(); ++i)
        EXPECT_TRUE(kept.second[i] == again.second[i]) << "gradient " << i;
    }
  }

  std::unique_ptr<Engine> engine_;
  const test::TinyRow row_ = test::random_row({300, 40, 700, 3}, 500, 12);  // all three paths
};

TEST_P(CudaModel, RecomputeGivesTheSameBits) {
  expect_same_bits();
  nn::AttentionSettings& settings = engine_->model().attention();
  settings.force = true;
  for (const bool force_short : {false, true})
    for (const nn::AttentionPath path : {nn::AttentionPath::kMasked, nn::AttentionPath::kGather}) {
      settings.force_short = force_short;
      settings.forced = path;
      expect_same_bits();
    }
}

// To the bit, but for the sign of a zero; whatever the memory held.
TEST_P(CudaModel, GradientsThatAStepWritesFirstAreThoseOfAddingToZeros) {
  Context& ctx = engine_->context();
  models::ParameterStore& store = engine_->parameters();
  const test::TinyRow token = test::random_row({1}, 500, 13);  // leaves experts without rows
  const auto pass = [&](int rows) {
    for (int i = 0; i < rows; ++i) engine_->run(row(), {.backward = true});
    engine_->run({token.ids, token.labels, token.cu_seqlens}, {.backward = true});
    store.complete_gradients(ctx.stream);
    return result();
  };
  for (const int rows : {0, 1, 2}) {
    store.zero_gradients(ctx.stream);
    const auto added = pass(rows);
    engine_->model().visit_parameters([&](nn::Parameter& p) {
      if (p.grad.defined())
        glmtune::run(ctx,
                     ops::Fill{.x = p.grad, .value = std::numeric_limits<double>::quiet_NaN()});
    });
    store.start_gradients();
    const auto written = pass(rows);
    EXPECT_EQ(added.first, written.first);
    for (std::size_t i = 0; i < added.second.size(); ++i)
      EXPECT_EQ(floats(added.second[i]), floats(written.second[i])) << "gradient " << i;
  }
}

TEST_P(CudaModel, DryRunPlansThePeakToTheByte) {
  for (const Recompute recompute : kRecomputes) {
    const PassOptions options{.backward = true, .recompute = recompute};
    const train::MemoryPlan plan = engine_->plan(row(), options);
    engine_->reserve(plan);
    engine_->reset_peak();
    engine_->run(row(), options);
    engine_->synchronize();
    EXPECT_EQ(engine_->peak().saved, plan.saved);
    EXPECT_EQ(engine_->peak().scratch, plan.scratch);
  }
}

TEST_P(CudaModel, TheEstimateOfARunIsThePeakToTheByte) {
  const train::SampleRow row({700});
  for (const bool gathers : {false, true}) {
    nn::AttentionSettings& settings = engine_->model().attention();
    settings.masked_max_tokens = gathers ? 400 : 8192;
    const train::RowSize size{.tokens = 700, .most_documents = 1};
    const train::MemoryPlan plan = train::plan_rows(*engine_, {}, size);
    engine_->reserve(plan);
    engine_->reset_peak();
    engine_->run(row.input(), train::training_pass({}));
    engine_->synchronize();
    EXPECT_EQ(engine_->peak().saved, plan.saved);
    EXPECT_EQ(engine_->peak().scratch, plan.scratch);
    if (gathers) continue;  // the estimate has a model of its own, which masks up to 8192 tokens
    const train::MemoryEstimate e =
        train::estimate_memory(wide_config(), {}, GetParam(), size, {}, Device::kCuda);
    EXPECT_EQ(e.saved, plan.saved);
    EXPECT_EQ(e.scratch, plan.scratch);
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, CudaModel, testing::Values(DType::kBF16, DType::kF32),
                         [](const auto& p) { return std::string(name_of(p.param)); });

}  // namespace
}  // namespace glmtune
