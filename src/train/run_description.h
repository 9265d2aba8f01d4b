#pragma once
// What a run says of itself before its first step, for its log and for the manifests of its
// checkpoints.
#include <string>

#include "data/pack.h"
#include "io/json.h"
#include "models/causal_lm.h"
#include "train/recipe.h"

namespace glmtune::train {

// "AdamW, lr 2e-05 cosine, betas 0.9 0.95, weight decay 0.1, exact fp32 master, clipping 1".
// weights: what they are in memory.
std::string optimizer_line(const Recipe& recipe, DType weights);

// Which kernels documents of which length go through.
std::string attention_line(const nn::AttentionSettings& attention);

// The parameters that get no gradient, those of all layers under one name: "not trained:
// self_attn.indexer.wq_b.weight (4), ..."; empty when there are none. mtp_layers: those that the
// checkpoint holds beside the model.
std::string frozen_line(models::CausalLm& model, std::int64_t mtp_layers);

// {"model": path or id, "model_commit": .., "chat_template_sha256": .., "untrained": [..]}, without
// members that say nothing.
io::Value run_facts(const Recipe& recipe, const std::string& model_commit,
                    const data::ChatFacts& chat);

}  // namespace glmtune::train
