#include "io/row_files.h"

#include <algorithm>
#include <array>

namespace glmtune::io {

std::string_view row_file_ending(std::string_view name) {
  constexpr std::array<std::string_view, 7> kEndings{
      ".jsonl", ".json", ".jsonl.gz", ".json.gz", ".jsonl.zst", ".json.zst", ".parquet"};
  constexpr std::array<std::string_view, 3> kDescriptions{"dataset_info.json", "dataset_infos.json",
                                                          "state.json"};
  if (std::find(kDescriptions.begin(), kDescriptions.end(), name) != kDescriptions.end()) return "";
  const auto* const ending = std::find_if(kEndings.begin(), kEndings.end(),
                                          [&](std::string_view e) { return name.ends_with(e); });
  return ending == kEndings.end() ? "" : *ending;
}

}  // namespace glmtune::io
