// libFuzzer: any bytes as a Parquet file end in rows or in an Error, in bounded memory.
#include <cstdint>

#include "base/error.h"
#include "io/parquet.h"
#include "memory_file.h"

using namespace glmtune;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::MemoryFile memory(data, size);
  try {
    const io::ParquetFile file = io::ParquetFile::open(memory.path());
    for (std::size_t g = 0; g < file.groups(); ++g) {
      const auto rows = file.read_group(g);
      if (static_cast<std::int64_t>(rows.size()) != file.rows_of_group(g)) __builtin_trap();
      for (const io::Value& row : rows) (void)io::to_json(row);
    }
  } catch (const Error&) {
  }
  return 0;
}
