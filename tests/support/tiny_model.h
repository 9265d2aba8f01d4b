#pragma once
// A GLM-5-architecture model small enough for central differences, with weights at which every path
// matters, and rows of several documents.
#include <cstdint>
#include <memory>
#include <vector>

#include "models/glm_moe_dsa.h"
#include "models/parameter_store.h"

namespace glmtune::test {

// 5 layers (1 dense MLP, 4 MoE; indexers F F S F S), hidden 12, 2 heads of 4+4/3, index_topk 4 with
// 8 index heads, 4 experts top-2 with one shared, vocabulary 19.
models::GlmConfig tiny_config();

// Matrices N(0, scale), norms U(0.6, 1.4), biases small: HF's own initialisation hides errors.
void randomize(models::CausalLm& model, std::uint64_t seed, double scale = 0.35);

struct TinyRow {
  std::vector<std::int32_t> ids, labels, cu_seqlens;
};
// Documents of the given lengths, random ids, about two labels in three.
TinyRow random_row(std::initializer_list<std::int32_t> lengths, std::int64_t vocab,
                   std::uint64_t seed);

// The numbers that a row takes along, in `memory` of the CPU: for RowLayout::place().
Tensor host_numbers(const nn::RowLayout& layout, OwnedTensor& memory);

// Copies every parameter's values, converting.
void copy_parameters(models::CausalLm& to, models::CausalLm& from);
// Every gradient as doubles, in the order of visit_parameters (trainable ones only).
std::vector<std::vector<double>> gradients(models::CausalLm& model,
                                           std::vector<std::string>* names);

}  // namespace glmtune::test
