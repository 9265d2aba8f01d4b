#pragma once
// Runs whose folder a test looks into.
#include <string>
#include <vector>

#include "train/checkpoint_folder.h"
#include "train/trainer_support.h"

namespace glmtune::train {

class FolderTrainer : public Trainer {
 protected:
  // The recipe with a text of it replaced.
  static std::string with(std::string recipe, const std::string& text, const std::string& by) {
    const std::size_t at = recipe.find(text);
    check(at != std::string::npos, cat("the recipe has no ", text));
    return recipe.replace(at, text.size(), by);
  }
  // What training ends with; "" where it ends well.
  std::string error_of(const std::string& recipe) {
    try {
      train(recipe);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }
  // Names of the published step folders, by step.
  std::vector<std::string> step_folders(const std::string& out) const {
    std::vector<std::string> names;
    for (const StepFolder& f : CheckpointFolder(path(out)).published())
      names.push_back(fs::path(f.path).filename());
    return names;
  }
};

}  // namespace glmtune::train
