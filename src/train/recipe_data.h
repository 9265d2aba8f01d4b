#pragma once
// The recipe's data sets as the data layer's settings.
#include <vector>

#include "train/recipe.h"
#include "train/recipe_reader.h"

namespace glmtune::train {

// `section` is "dataset" or one of the validation sets.
DatasetEntry build_dataset(const RecipeReader& reader, const std::string& section,
                           std::uint64_t seed);
DataloaderSettings build_dataloader(const RecipeReader& reader, const std::string& section);
// dataloader.shuffle, whose default follows the kind of data.
bool shuffles(const RecipeReader& reader, const data::DatasetSettings& settings);
// True for data that repeat without end, whose run only max_steps can end.
bool is_endless(const data::DatasetSettings& settings);

}  // namespace glmtune::train
