#pragma once
// What a run says of itself before its first step, for its log and for the manifests of its
// checkpoints.
#include <string>

#include "data/pack.h"
#include "io/json.h"
#include "models/causal_lm.h"
#include "train/lr_schedule.h"
#include "train/recipe.h"
#include "train/step_scheduler.h"

namespace glmtune::train {

// "AdamW, lr 2e-05 cosine, betas 0.9 0.95, weight decay 0.1, exact fp32 master, clipping 1".
// weights: what they are in memory.
std::string optimizer_line(const Recipe& recipe, DType weights);

// Who runs what and where: "experiment: user@host, 1 rank on the CPU, fine-tuning of MODEL by
// recipe.yaml".
std::string experiment_line(const Recipe& recipe, Device device);

// "schedule: global batch 8 = local batch 2 x accumulation 4; 10 steps an epoch, 100 in all, ...":
// batches, lengths, cadences, retention. done: steps before this start.
std::string schedule_line(const Recipe& recipe, const StepScheduler& schedule, std::int64_t done);

// The rates of the first step to come, after the warm-up and of the last step.
std::string rates_line(const Recipe& recipe, const LrSchedule& rates, std::int64_t first,
                       std::int64_t total_steps);

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
