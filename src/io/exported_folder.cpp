#include "io/exported_folder.h"

#include <filesystem>

#include "base/cat.h"

namespace glmtune::io {

namespace fs = std::filesystem;

std::string exported_folder_hint(const std::string& folder) {
  std::error_code error;
  const fs::path root(folder);
  for (const char* below : {"consolidated", "model/consolidated", "LATEST/model/consolidated",
                            "LOWEST_VAL/model/consolidated"}) {
    const fs::path exported = root / below;
    if (fs::exists(exported / "config.json", error))
      return cat("; this is a folder of a training run, its Hugging Face folder is ",
                 exported.string());
  }
  for (const fs::path& step : {root, root / "LATEST"})
    if (fs::exists(step / "state.json", error))
      return cat(
          "; this is a checkpoint of a training run without a Hugging Face folder; glmtune "
          "inspect ",
          step.string(), " names the command that writes one");
  return "";
}

}  // namespace glmtune::io
