// libFuzzer: any bytes as a safetensors file end in tensors that lie inside the file, or in an
// Error.
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "io/safetensors.h"
#include "memory_file.h"

using namespace glmtune;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::MemoryFile memory(data, size);
  try {
    const io::SafetensorsFile file = io::SafetensorsFile::open(memory.path());
    for (const io::TensorInfo& t : file.tensors()) {
      if (file.find(t.name) == nullptr) __builtin_trap();
      if (t.offset > size || t.bytes() > size - t.offset) __builtin_trap();
      std::vector<char> bytes(t.bytes());
      file.read_bytes(t, 0, bytes.data(), bytes.size());
      (void)t.shape_string();
    }
  } catch (const Error&) {
  }
  return 0;
}
