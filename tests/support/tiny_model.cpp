#include "support/tiny_model.h"

#include <algorithm>
#include <random>
#include <span>

namespace glmtune::test {

models::GlmConfig tiny_config() {
  using models::IndexerType;
  using models::MlpType;
  models::GlmConfig c;
  c.vocab_size = 19;
  c.hidden_size = 12;
  c.num_hidden_layers = 5;
  c.num_attention_heads = 2;
  c.q_lora_rank = 7;
  c.kv_lora_rank = 5;
  c.qk_nope_head_dim = 4;
  c.qk_rope_head_dim = 4;
  c.v_head_dim = 3;
  c.rope_theta = 100;
  c.index_n_heads = 8;
  c.index_head_dim = 6;
  c.index_topk = 4;
  c.indexer_types = {IndexerType::kFull, IndexerType::kFull, IndexerType::kShared,
                     IndexerType::kFull, IndexerType::kShared};
  c.mlp_layer_types = {MlpType::kDense, MlpType::kSparse, MlpType::kSparse, MlpType::kSparse,
                       MlpType::kSparse};
  c.intermediate_size = 9;
  c.moe_intermediate_size = 5;
  c.n_routed_experts = 4;
  c.num_experts_per_tok = 2;
  c.n_shared_experts = 1;
  c.routed_scaling_factor = 2.5;
  return c;
}

void randomize(models::CausalLm& model, std::uint64_t seed, double scale) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<double> normal(0, scale);
  std::uniform_real_distribution<double> uniform(0.6, 1.4);
  model.visit_parameters([&](nn::Parameter& p) {
    const bool is_norm = p.value.rank == 1 && p.name.ends_with("weight");
    const auto fill = [&]<class T>(T) {
      for (std::int64_t i = 0; i < p.value.count(); ++i)
        p.value.as<T>()[i] = static_cast<T>(is_norm ? uniform(rng) : normal(rng));
    };
    dispatch_real(p.value.dtype, fill);
  });
}

TinyRow random_row(std::initializer_list<std::int32_t> lengths, std::int64_t vocab,
                   std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  TinyRow row;
  row.cu_seqlens.push_back(0);
  for (const std::int32_t n : lengths) {
    for (std::int32_t t = 0; t < n; ++t) {
      row.ids.push_back(static_cast<std::int32_t>(rng() % static_cast<std::uint64_t>(vocab)));
      row.labels.push_back(
          rng() % 3 == 0 ? -100
                         : static_cast<std::int32_t>(rng() % static_cast<std::uint64_t>(vocab)));
    }
    row.cu_seqlens.push_back(static_cast<std::int32_t>(row.ids.size()));
  }
  return row;
}

Tensor host_numbers(const nn::RowLayout& layout, OwnedTensor& memory) {
  const std::span<const std::int32_t> numbers = layout.numbers();
  memory = OwnedTensor({static_cast<std::int64_t>(numbers.size())}, DType::kI32, Device::kCpu);
  std::copy(numbers.begin(), numbers.end(), memory.view.as<std::int32_t>());
  return memory;
}

void copy_parameters(models::CausalLm& to, models::CausalLm& from) {
  const std::vector<nn::Parameter*> sources = models::parameters_of(from);
  std::size_t i = 0;
  to.visit_parameters([&](nn::Parameter& p) {
    const Tensor src = sources[i++]->value;
    dispatch_real(src.dtype, [&]<class S>(S) {
      dispatch_real(p.value.dtype, [&]<class D>(D) {
        for (std::int64_t k = 0; k < src.count(); ++k)
          p.value.as<D>()[k] = static_cast<D>(static_cast<Wide<S>>(src.as<S>()[k]));
      });
    });
  });
}

std::vector<std::vector<double>> gradients(models::CausalLm& model,
                                           std::vector<std::string>* names) {
  std::vector<std::vector<double>> all;
  model.visit_parameters([&](nn::Parameter& p) {
    if (!p.trainable) return;
    std::vector<double> g(static_cast<std::size_t>(p.grad.count()));
    dispatch_real(p.grad.dtype, [&]<class T>(T) {
      for (std::size_t i = 0; i < g.size(); ++i)
        g[i] = static_cast<double>(static_cast<Wide<T>>(p.grad.as<T>()[i]));
    });
    all.push_back(std::move(g));
    if (names != nullptr) names->push_back(p.name);
  });
  return all;
}

}  // namespace glmtune::test
