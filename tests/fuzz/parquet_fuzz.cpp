// libFuzzer: any bytes as a Parquet file end in rows or in an Error, in bounded memory.
#include <cstdint>

#include "base/error.h"
#include "io/parquet.h"
#include "io/parquet_column.h"
#include "memory_file.h"

using namespace glmtune;

constexpr std::uint64_t kMost = std::uint64_t{64} << 20U;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::MemoryFile memory(data, size);
  try {
    const io::ParquetFile file = io::ParquetFile::open(memory.path());
    for (std::size_t g = 0; g < file.groups(); ++g) {
      io::parquet::MemoryLeft left(kMost);
      std::int64_t rows = 0;
      std::uint64_t bytes = 0;
      file.for_each_row(g, left, [&](const io::Value& row) {
        ++rows;
        bytes += io::to_json(row).size();
        if (bytes > kMost) fail("the text of a small file is enough");
      });
      if (rows != file.rows_of_group(g)) __builtin_trap();
    }
  } catch (const Error&) {
  }
  return 0;
}
