#pragma once
// Parquet files, read row group by row group into objects as JSON would hold them: lists become
// arrays, structs objects (a null stays a null member), maps with string keys objects; dates and
// timestamps are their stored integers. Data pages of both versions; codecs none, snappy, gzip,
// zstd. Binary columns that are not UTF-8, INT96, fixed-length bytes, decimals and unsigned
// integers beyond 2^63 - 1 are refused by name, where they are to be read.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/files.h"
#include "io/json.h"
#include "io/parquet_format.h"

namespace glmtune::io {

namespace parquet {
struct Node;
class MemoryLeft;
}  // namespace parquet

class ParquetFile {
 public:
  // columns: those of the top level that are read, as far as the file has them; none: all.
  static ParquetFile open(const std::string& path, const std::vector<std::string>& columns = {});
  ParquetFile(ParquetFile&&) noexcept;
  ParquetFile& operator=(ParquetFile&&) noexcept;
  ~ParquetFile();

  const std::string& path() const { return file_.path(); }
  std::int64_t rows() const { return metadata_.rows; }
  std::size_t groups() const { return metadata_.groups.size(); }
  std::int64_t rows_of_group(std::size_t group) const { return metadata_.groups[group].rows; }
  std::vector<std::string> columns() const;  // names of the top level that are read, in order
  const std::vector<std::string>& unread_columns() const { return unread_columns_; }

  // Hands out the rows of one group, in order, and holds one row and a page of each column at a
  // time. Errors name file, row group and column; also where `memory` does not suffice.
  void for_each_row(std::size_t group, parquet::MemoryLeft& memory,
                    const std::function<void(Value&&)>& take) const;
  // All rows of a group; for small ones.
  std::vector<Value> read_group(std::size_t group) const;

 private:
  ParquetFile(ReadFile file, parquet::FileMetadata metadata);

  ReadFile file_;
  parquet::FileMetadata metadata_;
  std::unique_ptr<parquet::Node> root_;
  std::vector<std::string> unread_columns_;
};

// Every row as a line of JSON; more than `most` bytes, or as many to unpack it, are an Error.
std::string parquet_to_json_lines(const ParquetFile& file, std::uint64_t most);

}  // namespace glmtune::io
