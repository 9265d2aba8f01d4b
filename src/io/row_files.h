#pragma once
// Which files hold rows of a data set, by their names.
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace glmtune::io {

// ".jsonl", ".json", either also with .gz or .zst, or ".parquet"; "" for other files and for those
// in which the hub's data sets describe themselves.
std::string_view row_file_ending(std::string_view name);
inline bool is_row_file(std::string_view name) {
  return !row_file_ending(name).empty();
}

// Whether a path with '/', from a data set's folder on, is none of its data: a part of it begins
// with '.', or a folder with "__" (what editors, notebooks and macOS leave).
bool is_hidden(std::string_view path);

// Whether a path has one of the split's words, between characters that are no letters or digits.
bool names_split(std::string_view path, std::string_view split);
// Of validation also valid, dev and val; of train training; of test testing, eval, evaluation.
std::vector<std::string_view> words_of_split(std::string_view split);

// What a file of rows seems to hold, by its path in a data set: the folders that may be a subset's
// name, and the split: "en/test" for "data/en/test-00000-of-00002.parquet", "train" for "a.jsonl".
std::string part_of_rows(std::string_view path);

// Files of rows of one form: the same rows often lie there as JSON and as Parquet, or packed beside
// unpacked.
struct OneForm {
  std::vector<std::string> chosen, others;  // both in the order they were given in
};
// Of JSON and Parquet the one with more files, Parquet of as many; of JSON files that differ in the
// ending only, the first of .jsonl, .json, .jsonl.gz, .json.gz, .jsonl.zst, .json.zst. there: those
// of the paths that are on this machine already, which then decide.
OneForm one_form(const std::vector<std::string>& paths, const std::set<std::string>& there = {});

// "data/train-00003-of-00006.parquet": a file that counts the others of its kind. Two numbers of
// five digits, before which something ends that is no digit, or nothing is.
struct ShardName {
  std::string before;  // "data/train-"
  int number = 0, count = 0;
  std::string after;       // ".parquet", without what is_hashed says
  bool is_hashed = false;  // "-0123456789abcdef" stands before it, of this file alone

  // Of another number; '*' for the hash that nobody knows.
  std::string path(int n) const;
};
// None for other names.
std::optional<ShardName> shard_name(std::string_view path);

}  // namespace glmtune::io
