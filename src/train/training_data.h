#pragma once
// The data sets of a run: tokenizers and templates are loaded once, hub ids become local files.
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "train/recipe.h"

namespace glmtune::train {

// Whether a data set's rows are text, so that they need a tokenizer.
bool reads_text(const DatasetEntry& entry);

// A data set with its folders as the files of its subset and split, where a card or a folder says
// which these are. Throws Error naming the recipe key.
DatasetEntry with_subset_files(DatasetEntry entry);

class TrainingData {
 public:
  // model_folder: the checkpoint, whose tokenizer and template serve where a data set names none.
  TrainingData(std::string model_folder, std::int64_t vocab_size)
      : model_folder_(std::move(model_folder)), vocab_size_(vocab_size) {}

  // Throws Error naming the recipe key and the file.
  std::unique_ptr<data::PackSource> open(const DatasetEntry& entry,
                                         const data::Progress& progress) {
    return open_files(with_subset_files(entry), progress);
  }
  // What with_subset_files() returned.
  std::unique_ptr<data::PackSource> open_files(const DatasetEntry& entry,
                                               const data::Progress& progress);

 private:
  data::TextTools tools(const DatasetEntry& entry);

  std::string model_folder_;
  std::int64_t vocab_size_;
  std::vector<std::pair<std::string, data::TextTools>> loaded_;  // by folder
};

}  // namespace glmtune::train
