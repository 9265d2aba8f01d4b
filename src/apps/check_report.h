#pragma once
// What `glmtune check` says about a recipe, for people and as JSON.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/pack.h"
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

// The config of a folder, of a model in the local cache, or the facts of a released one; none when
// the model is not on this machine. Throws Error for a folder without one and for other
// architectures.
std::optional<ModelFacts> model_facts(const train::Recipe& recipe);

inline constexpr const char* kNotHere = "not on this machine";

struct DataFacts {
  std::string key;     // "dataset", "validation_dataset_math"
  std::string target;  // "ChatDataset"
  std::string source;
  std::string place;  // of the source in the recipe, for messages
  std::string found;  // "12.3 MiB in 2 files", "in the local cache", "not on this machine"
  std::string why;    // it is not on this machine
};
// Throws Error for a path that does not exist.
std::vector<DataFacts> data_facts(const train::Recipe& recipe);

// A data set's first rows, read as a run reads them.
struct ReadRows {
  std::string key;
  bool all = false;                                  // there are no others
  std::optional<std::int64_t> packs;                 // of a run; none when rows were left unread
  std::int64_t pack_tokens = 0, pack_documents = 0;  // the most in one of their packs
  data::DataSummary summary;
};

// One rank's memory under a plan of the recipe.
struct RankMemory {
  std::optional<train::MemoryEstimate> estimate;  // none without a model or with conflicts
  std::int64_t row_tokens = 0;                    // of the largest micro-batch; 0: unknown
  std::string advice;                             // keys that would lower it to `available`
};

struct CheckReport {
  std::string recipe_path;
  const train::RecipeFile& file;
  std::optional<std::int64_t> world_asked;  // --world-size
  std::optional<ModelFacts> model;
  std::vector<DataFacts> data;
  train::RecipePlan plan;

  std::vector<ReadRows> rows;
  std::optional<std::int64_t> steps;  // of the whole run; none where only all the data tell

  RankMemory memory;  // of the plan

  std::vector<std::string> reasons;    // why a run on this machine would not train; empty: it does
  std::vector<std::string> unchecked;  // what nothing was found out about
};

// Reads the first kCheckedRows rows of each data set whose files are here, and fills in rows. Bad
// rows that would end a run throw one Error with a line for each of the first.
inline constexpr std::int64_t kCheckedRows = 1000;
void read_rows(CheckReport& report);

// Fills in steps. Throws Error for a schedule that does not fit into them.
void check_schedule(CheckReport& report);

// Throws Error for a pattern of optimizer.param_group_overrides that decides for none of the
// model's parameters.
void check_overrides(const CheckReport& report);

// What the weights are in memory: FP8 becomes bf16, F16 float32.
DType weight_type(const CheckReport& report);

// available: what the advice is for, in bytes; none: no advice.
RankMemory rank_memory(const CheckReport& report, const train::RecipePlan& plan,
                       std::optional<std::uint64_t> available);

// What a rank takes: all of it, or only weights, gradients and optimizer state where the size of
// the rows is unknown.
std::uint64_t needed_bytes(const RankMemory& memory);

// The smallest world of 1, 2, 4 ... times the recipe's smallest whose settings fit together and
// whose ranks need at most `available` bytes each; none up to kMostRanksTried.
inline constexpr std::int64_t kMostRanksTried = 4096;
std::optional<std::int64_t> ranks_that_hold(const CheckReport& report, std::uint64_t available);

// Fills in reasons and the rest of unchecked.
void judge(CheckReport& report);

std::string to_text(const CheckReport& report);
// Every key of the recipe by its dotted name, then check.* for the rest.
io::Value to_value(const CheckReport& report);

}  // namespace glmtune::apps
