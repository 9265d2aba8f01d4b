#include "io/host_memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>

#include "base/cat.h"

namespace glmtune::io {
namespace {

namespace fs = std::filesystem;

// The number of a file that holds one ("max" is none).
std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::uint64_t n = 0;
  return in >> n ? std::optional(n) : std::nullopt;
}

// The number of the line that begins with this word.
std::optional<std::uint64_t> number_after(const fs::path& file, const std::string& word) {
  std::ifstream in(file);
  std::string rest;
  std::uint64_t n = 0;
  for (std::string key; in >> key; std::getline(in, rest))
    if (key == word) return in >> n ? std::optional(n) : std::nullopt;
  return std::nullopt;
}

// Where one version of control groups keeps its numbers.
struct Version {
  const char* mount;
  const char *limit, *usage, *idle, *active;  // the last two: words of memory.stat
};
constexpr Version kV1{"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                      "total_inactive_file", "total_active_file"};
constexpr Version kV2{"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file",
                      "active_file"};

// The limits of a group and of all above it. A group that is not found below the mount is one that
// the container sees as the mount itself.
void lower_by(const Version& version, const fs::path& root, fs::path group, HostMemory& memory) {
  const fs::path mount = root / version.mount;
  for (;; group = group.parent_path()) {
    const fs::path folder = mount / group;
    const auto limit = number_in(folder / version.limit), used = number_in(folder / version.usage);
    if (limit && used) {
      // Pages of files are given up when memory is short.
      const fs::path stat = folder / "memory.stat";
      const std::uint64_t cached = number_after(stat, version.idle).value_or(0) +
                                   number_after(stat, version.active).value_or(0);
      const std::uint64_t taken = *used - std::min(*used, cached);
      const std::uint64_t left = *limit - std::min(*limit, taken);
      if (left < memory.available) memory = {left, (folder / version.limit).string()};
    }
    if (group.empty()) return;
  }
}

}  // namespace

HostMemory host_memory(const std::string& root) {
  const fs::path base = root.empty() ? fs::path("/") : fs::path(root);
  HostMemory memory{.available = std::numeric_limits<std::uint64_t>::max(), .limit_file = {}};
  if (const auto kilobytes = number_after(base / "proc/meminfo", "MemAvailable:"))
    memory.available = *kilobytes * 1024;
  // Lines "0::/group" and "5:memory:/group".
  std::ifstream groups(base / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = cat(",", line.substr(first + 1, second - first - 1), ",");
    const fs::path group = fs::path(line.substr(second + 1)).relative_path();
    if (controllers == ",,") lower_by(kV2, base, group, memory);
    if (controllers.find(",memory,") != std::string::npos) lower_by(kV1, base, group, memory);
  }
  return memory;
}

}  // namespace glmtune::io
