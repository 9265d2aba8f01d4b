#pragma once
// What a run starts from: the model's folder and shape, and its data with the schedule of steps
// over them. No weights are read here.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/pack_sampler.h"
#include "io/hub_cache.h"
#include "models/glm_config.h"
#include "models/hf_checkpoint.h"
#include "train/lr_schedule.h"
#include "train/recipe.h"
#include "train/step_scheduler.h"
#include "train/training_loop.h"
#include "train/training_state.h"

namespace glmtune::train {

struct RunModel {
  std::string folder;
  std::string commit;  // of a hub id; empty where the recipe names a path
  models::GlmConfig config;
  DType dtype = DType::kF32;                       // of the parameters in memory
  std::optional<models::HfCheckpoint> checkpoint;  // none: random weights of the config's shape
};
// hub: where hub ids are looked up. Error for a model that is not there or cannot be trained so.
RunModel open_run_model(const Recipe& recipe, const io::HubCache& hub);

// Why weights that are kept in this type do not run with distributed.mp_policy.param_dtype, which
// is a type of arithmetic, and what does; "" where they do.
std::string arithmetic_conflict(const Recipe& recipe, DType weights);

struct RunData {
  std::unique_ptr<data::PackSource> source;
  std::vector<ValidationSet> validation;
  std::unique_ptr<data::PackSampler> sampler;
  std::unique_ptr<StepScheduler> scheduler;
  std::unique_ptr<LrSchedule> lr_schedule;  // of set_rates()
};
// Reads the data sets, with a progress line at a terminal, and logs what is in them. The schedule
// is that of a run from the first step; its rates wait for the number of steps that will really
// run.
RunData open_run_data(const Recipe& recipe, const RunModel& model, bool terminal);

// The schedule of a run that goes on at a saved position: num_epochs counts epochs of the data,
// also where other batch sizes led there.
StepScheduler schedule_from(const RunData& data, const TrainingPosition& at);
// Error, naming the key, for rates that do not fit a run of so many steps.
void check_rates(const Recipe& recipe, std::int64_t total_steps);
// The rates of the schedule as it stands.
void set_rates(RunData& data, const Recipe& recipe);
// Moves the schedule there, and `at` to the next epoch where drop_last leaves out what is left, or
// another seed's packs are too few; says so.
void go_on(RunData& data, TrainingPosition& at);

}  // namespace glmtune::train
