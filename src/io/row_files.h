#pragma once
// Which files hold rows of a data set, by their names.
#include <string_view>

namespace glmtune::io {

// ".jsonl", ".json", either also with .gz or .zst, or ".parquet"; "" for other files and for those
// in which the hub's data sets describe themselves.
std::string_view row_file_ending(std::string_view name);
inline bool is_row_file(std::string_view name) {
  return !row_file_ending(name).empty();
}

}  // namespace glmtune::io
