#include "io/host_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "io/files.h"
#include "support/temp_folder.h"

namespace glmtune::io {
namespace {

class HostMemoryTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ / name).parent_path());
    io::write_file(root_ / name, text);
  }
  // 8 MB available on the machine.
  void machine(const std::string& groups) const {
    write("proc/meminfo", "MemTotal:  16000 kB\nMemFree: 10 kB\nMemAvailable:    8000 kB\n");
    write("proc/self/cgroup", groups);
  }

  TempFolder root_;
};

TEST_F(HostMemoryTest, IsWhatTheSystemSaysWithoutALimit) {
  machine("0::/\n");
  EXPECT_EQ(host_memory(root_.path()).available, 8000U * 1024);
  write("sys/fs/cgroup/memory.max", "max\n");
  write("sys/fs/cgroup/memory.current", "4096\n");
  EXPECT_EQ(host_memory(root_.path()).available, 8000U * 1024);
  EXPECT_EQ(host_memory(root_.path()).limit_file, "");
}

TEST_F(HostMemoryTest, IsBoundedByAContainersLimit) {
  machine("0::/\n");
  write("sys/fs/cgroup/memory.max", "5000000\n");
  write("sys/fs/cgroup/memory.current", "3000000\n");
  write("sys/fs/cgroup/memory.stat", "anon 1\nactive_file 7\ninactive_file 500000\n");
  const HostMemory memory = host_memory(root_.path());
  EXPECT_EQ(memory.available, 2500007U);
  EXPECT_TRUE(memory.limit_file.ends_with("/sys/fs/cgroup/memory.max")) << memory.limit_file;
}

TEST_F(HostMemoryTest, IsBoundedByTheTightestGroupAbove) {
  machine("0::/job_3/task\n");
  write("sys/fs/cgroup/job_3/memory.max", "2000000\n");
  write("sys/fs/cgroup/job_3/memory.current", "1900000\n");
  write("sys/fs/cgroup/job_3/task/memory.max", "1000000\n");
  write("sys/fs/cgroup/job_3/task/memory.current", "1500000\n");
  EXPECT_EQ(host_memory(root_.path()).available, 0U);
  write("sys/fs/cgroup/job_3/task/memory.current", "10\n");
  EXPECT_EQ(host_memory(root_.path()).available, 100000U);
}

// Version 1; the container sees its own group as the mount, the path is the host's.
TEST_F(HostMemoryTest, ReadsVersionOneToo) {
  machine("9:cpu:/docker/ab\n4:memory:/docker/ab\n0::/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000000\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "400000\n");
  write("sys/fs/cgroup/memory/memory.stat", "cache 5\ntotal_inactive_file 100000\n");
  EXPECT_EQ(host_memory(root_.path()).available, 700000U);
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(host_memory(root_.path()).limit_file, "");
}

TEST_F(HostMemoryTest, IsTheLargestNumberWhereNothingIsSaid) {
  EXPECT_EQ(host_memory(root_.path()).available, std::numeric_limits<std::uint64_t>::max());
}

}  // namespace
}  // namespace glmtune::io
