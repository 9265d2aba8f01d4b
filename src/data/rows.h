#pragma once
// Rows: the JSON objects of one or several files, shuffled and sliced as a recipe asks, parsed one
// at a time. Files are JSON Lines (one object a line, blank lines skipped, line numbers physical)
// or one JSON array, either also packed with gzip or zstd; or Parquet. Of plain
// JSON only positions are kept; the others are unpacked into memory.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/hash.h"
#include "data/settings.h"
#include "io/files.h"
#include "io/json.h"

namespace glmtune::data {

// Three quarters of the memory that is left to this process: what one more file may take of it.
std::uint64_t most_unpacked_bytes();

// Error where `integer` (io::first_oversized_integer) is not empty: a template would render it
// otherwise than it is written.
void refuse_oversized_integer(const std::string& integer, const std::string& where);

// A file's bytes: read where they are wanted from a plain file, or unpacked into memory (Error
// beyond `most` bytes).
class FileBytes {
 public:
  // columns: those that are read of a Parquet file; none: all.
  explicit FileBytes(const std::string& path, std::uint64_t most = most_unpacked_bytes(),
                     const std::vector<std::string>& columns = {});

  std::uint64_t size() const { return file_ ? file_->size() : unpacked_.size(); }
  // Bytes [offset, offset + bytes), in `buffer` or in memory as long as this object and `buffer`
  // are. MachineError where the file has become shorter. Safe from several threads.
  std::string_view read(std::uint64_t offset, std::size_t bytes, std::string& buffer) const;
  const std::vector<std::string>& unread_columns() const { return unread_columns_; }

 private:
  std::optional<io::ReadFile> file_;  // none when unpacked
  std::string unpacked_;
  std::vector<std::string> unread_columns_;
};

// [begin, end) of `rows` rows for a split with an optional slice: "train", "train[:100]",
// "train[10%:]", "train[-5:]". Positions beyond the end are cut, as Python's slices do; percentages
// round to the nearest row. Throws Error for anything else.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
RowRange slice_of_split(const std::string& split, std::int64_t rows);
// Why a split is not understood whatever the number of rows; empty when it is.
std::string problem_of_split(const std::string& split);
std::string name_of_split(const std::string& split);  // the part before '['

// The files behind the paths of a data set: a file is itself, a folder is its .jsonl, .json and
// .parquet files in the order of their names, those whose path names the split (val and dev are
// validation) or, for train, no split at all; of several forms one (split_files.h). Errors name the
// path and what was looked for.
std::vector<std::string> data_files(const std::vector<std::string>& paths,
                                    const std::string& split_name);

struct RowReading {
  // What the reader of the rows looks at: of Parquet files nothing else is read, so that it may be
  // of any type. None: everything.
  std::vector<std::string> columns = {};
  std::int64_t max_line_bytes = std::int64_t{1} << 30;
};

// An element of a JSON array that is no JSON. A stray quote may make one element of many rows, so
// it cannot be left out like a bad row.
struct BrokenArray : Error {
  using Error::Error;
};

class Rows {
 public:
  Rows(const std::vector<std::string>& paths, const RowSelection& selection,
       RowReading reading = {});

  std::int64_t size() const { return static_cast<std::int64_t>(selected_.size()); }
  // Rows of all files, before the slice.
  std::int64_t available() const { return static_cast<std::int64_t>(all_.size()); }
  // Row i as an object; Error with file, line and reason. A column that is an integer which Value
  // does not hold is text, as it is spelled. Safe from several threads.
  io::Value row(std::int64_t i) const;
  std::string where(std::int64_t i) const;  // "file:line", of an array's "file: row 3"
  bool is_columnar(std::int64_t i) const;   // of a Parquet file
  // What row i's file has beside what row() shows.
  std::span<const std::string> unread_columns(std::int64_t i) const;
  // Error where a chat of row i (which row() has accepted), or its tools, hold an integer that
  // Value does not.
  void check_integers(std::int64_t i) const;
  // Row i's position before the shuffle, over all files.
  std::int64_t in_files(std::int64_t i) const { return selected_[static_cast<std::size_t>(i)]; }
  // Adds the selected rows' bytes to a hash.
  void add_to(ContentHash& hash) const;

 private:
  struct Span {
    std::int32_t file = 0;
    std::int64_t number = 0;  // line, or element of the array, from 1
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
  };
  struct Place {
    std::int64_t line = 1;
    std::int64_t column = 1;
  };
  struct File {
    std::string path;
    bool array = false;
    std::unique_ptr<FileBytes> bytes;
    std::vector<Place> places = {};  // of an array's elements
  };
  void index_lines(std::int32_t file, std::uint64_t start);
  void index_array(std::int32_t file, std::uint64_t start);
  void parse_from(std::size_t first) const;
  io::Value parse(const Span& span, std::string_view text) const;
  [[noreturn]] void refuse(const Span& span, std::string_view text, std::string_view problem) const;
  std::string where(const Span& span) const;
  std::string_view bytes_of(const Span& span, std::string& buffer) const;
  const Span& span(std::int64_t i) const {
    return all_[static_cast<std::size_t>(selected_[static_cast<std::size_t>(i)])];
  }

  RowReading reading_;
  std::vector<File> files_;
  std::vector<Span> all_;
  std::vector<std::int64_t> selected_;  // indices into all_
};

}  // namespace glmtune::data
