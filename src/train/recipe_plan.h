#pragma once
// What a recipe comes to on a number of ranks: the mesh, the batches, the pipeline's stages, and
// whether they fit together. Pure arithmetic: nothing is read or allocated.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/json.h"
#include "models/glm_config.h"
#include "train/recipe.h"

namespace glmtune::train {

struct RecipePlan {
  std::int64_t world_size = 1;
  std::string world_size_from;  // "--world-size", "ci.nodes x 8", "smallest that fits"
  std::int64_t pp = 1, dp = 1, dp_replicate = 1, cp = 1, tp = 1, ep = 1, ep_shard = 1;
  std::int64_t accumulation = 1;
  std::int64_t tokens_per_step = 0;        // 0: samples of no fixed length
  std::int64_t experts_per_rank = 0;       // of one layer; 0 without a model
  std::vector<std::int64_t> stage_layers;  // of each virtual stage; empty without a pipeline
  std::vector<std::string> conflicts;      // whole lines, each with the nearest legal values
  std::vector<std::string> notes;
};

// world_size: none takes ci_nodes x 8 where that is known, else the smallest world that fits.
RecipePlan plan_recipe(const Recipe& recipe, const models::GlmConfig* model,
                       std::optional<std::int64_t> world_size,
                       std::optional<std::int64_t> ci_nodes);

// Layers of each virtual stage: ceil(layers / layers_per_stage) stages, rounded "up" or "down" to a
// multiple of pp; the first ones take what does not divide evenly.
std::vector<std::int64_t> stage_layers(std::int64_t layers, std::int64_t pp,
                                       const PipelineSettings& pipeline);

// Of `of`, from below and above x: "4 or 6"; one where x is below the first.
std::string nearest_multiples(std::int64_t of, std::int64_t x);

}  // namespace glmtune::train
