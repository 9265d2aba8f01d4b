#pragma once
// Memory that this process can still take on the host: what the system says is available, and what
// the limits of its container (control groups, version 1 and 2) leave.
#include <cstdint>
#include <string>

namespace glmtune::io {

struct HostMemory {
  std::uint64_t available = 0;  // bytes; the largest number where the system does not say
  std::string limit_file;       // the container's limit, where that is what bounds it; else empty
};

// root: where /proc and /sys are found, for tests.
HostMemory host_memory(const std::string& root = "");

}  // namespace glmtune::io
