#pragma once
// The encodings of values and levels in Parquet pages (Encodings.md of the format). Every function
// reads exactly `count` items or throws.
#include <cstdint>
#include <string_view>
#include <vector>

#include "io/byte_reader.h"
#include "io/json.h"
#include "io/parquet_format.h"

namespace glmtune::io::parquet {

// The hybrid of runs and bit-packed groups; values have `width` bits (0..32).
std::vector<std::uint32_t> read_hybrid(ByteReader& in, unsigned width, std::int64_t count);

// DELTA_BINARY_PACKED: 64-bit arithmetic that wraps around.
std::vector<std::int64_t> read_delta(ByteReader& in, std::int64_t count);

// `count` values in any encoding but the dictionary's: bool, integer, number or string (byte arrays
// must be UTF-8 where the schema says so).
struct LeafType {
  Type type = Type::kBoolean;
  Annotation annotation = Annotation::kNone;
};
// An unsigned integer beyond 2^63 - 1, which Value does not hold, comes as text.
// `most`: bytes that strings may share with the ones before them, which a page does not show.
std::vector<Value> read_values(ByteReader& in, Encoding encoding, const LeafType& leaf,
                               std::int64_t count, std::uint64_t most);

}  // namespace glmtune::io::parquet
