#pragma once
// One column of one row group: its values and the levels that say where they belong.
#include <cstdint>
#include <string_view>
#include <vector>

#include "io/parquet_encoding.h"

namespace glmtune::io::parquet {

struct LeafColumn {
  LeafType type;
  unsigned max_definition = 0;
  unsigned max_repetition = 0;
};

// `levels` entries in all; `values` holds one item for each whose definition is the largest.
struct ColumnData {
  std::vector<std::uint32_t> repetition;  // empty when max_repetition is 0
  std::vector<std::uint32_t> definition;  // empty when max_definition is 0
  std::vector<Value> values;
  std::int64_t levels = 0;
};

// `pages`: the bytes of the chunk, dictionary page first.
ColumnData read_column(std::string_view pages, const ColumnChunk& chunk, const LeafColumn& leaf);

}  // namespace glmtune::io::parquet
