#pragma once
// Which files of a data set's folder belong to a subset (`name`) and a split: what its card says
// (README.md of the Hugging Face hub: front matter `configs`), else the folder of that name.
#include <string>
#include <vector>

namespace glmtune::train {

// One path: the folder itself, or that of the subset, where a card has nothing to say; else the
// files of the card's data_files, below its data_dir, for `split` ("train", without a slice). An
// empty name takes the card's default subset. Throws Error naming the folder and the subsets or
// splits there are.
std::vector<std::string> subset_files(const std::string& folder, const std::string& name,
                                      const std::string& split);

// `pattern` with * and ? inside one part of a path, ** across parts.
bool glob_matches(const std::string& pattern, const std::string& path);

}  // namespace glmtune::train
