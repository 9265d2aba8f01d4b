#pragma once
// One column of one row group, read page by page: no more than a page and the dictionary are in
// memory, and of neither more than is left there.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/files.h"
#include "io/parquet_encoding.h"

namespace glmtune::io::parquet {

// Bytes that reading a file may still take; files say what they unpack to before they do.
class MemoryLeft {
 public:
  explicit MemoryLeft(std::uint64_t bytes) : bytes_(bytes) {}
  std::uint64_t bytes() const { return bytes_; }
  // Error, naming `what`, where fewer are left.
  void take(std::uint64_t bytes, std::string_view what);
  void give_back(std::uint64_t bytes) { bytes_ += bytes; }

 private:
  std::uint64_t bytes_;
};

struct LeafColumn {
  LeafType type;
  unsigned max_definition = 0;
  unsigned max_repetition = 0;
};

// A cursor over the entries of the column. Every entry has levels, which say where it belongs;
// those whose definition is the largest have a value.
class ColumnPages {
 public:
  ColumnPages(const ReadFile& file, const ColumnChunk& chunk, const LeafColumn& leaf,
              MemoryLeft& memory);

  // Behind the last entry; loads the next page where one has ended.
  bool at_end() { return level_ == levels_ && !load_entries(); }
  // Of the current entry; not at the end.
  unsigned definition() const { return definition_.empty() ? 0 : definition_[level_]; }
  unsigned repetition() const { return repetition_.empty() ? 0 : repetition_[level_]; }
  void skip() { ++level_; }
  Value take();

 private:
  bool load_entries();
  PageHeader next_header();
  std::string next_bytes(std::int64_t bytes);
  void load();
  void read_dictionary(const PageHeader& header, std::string_view packed);
  void read_data(const PageHeader& header, std::string_view packed);
  void read_data_v2(const PageHeader& header, std::string_view packed);
  void read_entries(const PageHeader& header, ByteReader& in);

  const ReadFile& file_;
  const ColumnChunk& chunk_;
  LeafColumn leaf_;
  MemoryLeft& memory_;
  std::uint64_t at_ = 0, end_ = 0;  // in the file
  std::int64_t entries_ = 0;        // of the pages so far
  std::uint64_t page_bytes_ = 0;    // taken of memory_

  std::vector<Value> dictionary_;
  std::vector<std::uint32_t> repetition_;  // of the page; empty when max_repetition is 0
  std::vector<std::uint32_t> definition_;  // empty when max_definition is 0
  std::vector<Value> values_;
  std::vector<std::uint32_t> indices_;  // of values in the dictionary, instead of values_
  std::size_t levels_ = 0;
  std::size_t level_ = 0, value_ = 0;  // the current ones
};

}  // namespace glmtune::io::parquet
