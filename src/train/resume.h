#pragma once
// Which checkpoints belong to a run, and how a run differs from one it goes on from.
#include <string>
#include <vector>

#include "train/checkpoint_folder.h"
#include "train/training_state.h"

namespace glmtune::train {

// Why a saved position does not belong to the run at `now`: "seed is 5 there and 6 here", naming
// every key with both values; "" when it does. Another seed, model, data or order of the data make
// another run; an empty now.model_signature (weights not read yet) fits any.
std::string difference(const TrainingPosition& saved, const TrainingPosition& now);

// "optimizer.lr 0.002 -> 0.001, ...": settings of the recipe that have another value than where the
// run goes on from; "" when none has or they were not saved. Those of checkpoints are left out.
std::string changed_settings(const TrainingPosition& saved, const TrainingPosition& now);

// Where the rate of a run's next step, `now`, is not the one that the saved run would have taken:
// both of them and what they depend on; "" where it is, or was not saved.
std::string changed_rate(const TrainingPosition& saved, double now);

// Whether a place in the data of one means nothing in those of the other: other packs, and not for
// another seed alone, which gives the same data another order.
bool other_data(const TrainingPosition& saved, const TrainingPosition& now);

// Whether both choose the lowest validation loss by the same sets of rows and the same key.
bool same_validation(const TrainingPosition& saved, const TrainingPosition& now);

// Those of the candidates that belong to the run, in their order; one whose state cannot be read,
// or has changed since it was written, stays, for the check of its checksums to say so. Error when
// there are candidates and all of them are of other runs: the folder `root` is then not this run's
// to write to.
std::vector<StepFolder> of_this_run(const std::vector<StepFolder>& candidates,
                                    const TrainingPosition& now, const std::string& root);

// For CheckpointFolder::retain: false also where the state cannot be read.
bool belongs_to_run(const StepFolder& folder, const TrainingPosition& now);

}  // namespace glmtune::train
