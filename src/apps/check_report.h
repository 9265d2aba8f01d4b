#pragma once
// What `glmtune check` says about a recipe, for people and as JSON.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/glm_config.h"
#include "train/memory_estimate.h"
#include "train/recipe_file.h"
#include "train/recipe_plan.h"

namespace glmtune::apps {

struct ModelFacts {
  std::string from;  // the config's path, or "facts of the released model"
  models::GlmConfig config;
  std::int64_t parameters = 0;  // that are loaded and trained or frozen; without MTP layers
  std::int64_t routed_experts = 0;
  std::int64_t mtp = 0;
  std::int64_t active_per_token = 0;  // with the head, without the embedding
};

// The config of a folder, of a released model, or of a model in the local cache; none when the
// model is not on this machine. Throws Error for a folder without one and for other architectures.
std::optional<ModelFacts> model_facts(const train::Recipe& recipe);

struct DataFacts {
  std::string key;     // "dataset", "validation_dataset_math"
  std::string target;  // "ChatDataset"
  std::string source;
  std::string found;  // "12.3 MB in 2 files", "in the local cache", "not on this machine"
};
// Throws Error for a path that does not exist.
std::vector<DataFacts> data_facts(const train::Recipe& recipe);

struct CheckReport {
  std::string recipe_path;
  const train::RecipeFile& file;
  std::optional<ModelFacts> model;
  std::vector<DataFacts> data;
  train::RecipePlan plan;

  std::optional<train::MemoryEstimate> memory;  // of one rank; none without a model
  std::int64_t row_tokens = 0;                  // of the micro-batch it is for; 0: unknown
};

// Fills in memory and row_tokens.
void estimate(CheckReport& report);

std::string to_text(const CheckReport& report);
// Every key of the recipe by its dotted name, then check.* for the rest.
io::Value to_value(const CheckReport& report);

}  // namespace glmtune::apps
