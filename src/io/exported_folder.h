#pragma once
// A folder of a training run that stands where a model's folder should.
#include <string>

namespace glmtune::io {

// "; this is ..., its Hugging Face folder is X" where `folder` is a run's folder, one of its
// checkpoints or a checkpoint's model folder; empty for every other folder.
std::string exported_folder_hint(const std::string& folder);

}  // namespace glmtune::io
