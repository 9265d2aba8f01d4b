#pragma once
// Which files hold rows of a data set, by their names.
#include <optional>
#include <string>
#include <string_view>

namespace glmtune::io {

// ".jsonl", ".json", either also with .gz or .zst, or ".parquet"; "" for other files and for those
// in which the hub's data sets describe themselves.
std::string_view row_file_ending(std::string_view name);
inline bool is_row_file(std::string_view name) {
  return !row_file_ending(name).empty();
}

// "data/train-00003-of-00006.parquet": a file that counts the others of its kind. Two numbers of
// five digits, before which something ends that is no digit, or nothing is.
struct ShardName {
  std::string before;  // "data/train-"
  int number = 0, count = 0;
  std::string after;  // ".parquet"

  std::string path(int n) const;
};
// None for other names.
std::optional<ShardName> shard_name(std::string_view path);

}  // namespace glmtune::io
