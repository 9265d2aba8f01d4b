#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/cat.h"
#include "base/error.h"
#include "data/rows.h"
#include "io/codec.h"
#include "io/parquet.h"

namespace glmtune::data {
namespace {

std::string gunzip(const std::string& path, std::uint64_t most) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) fail(cat(path, ": cannot be opened: ", std::strerror(errno)));
  std::string out;
  std::vector<char> block(1 << 20);
  for (;;) {
    const int n = gzread(file, block.data(), static_cast<unsigned>(block.size()));
    if (n > 0) {
      out.append(block.data(), static_cast<std::size_t>(n));
      if (out.size() <= most) continue;
      gzclose(file);
      io::fail_too_large(path, most);
    }
    // gzread ends quietly in the middle of a truncated file; only the error state tells.
    int code = Z_OK;
    const std::string message = gzerror(file, &code);
    gzclose(file);
    if (n < 0 || code != Z_OK) {
      fail(cat(path, ": damaged gzip file after ", out.size(), " unpacked bytes: ", message));
    }
    return out;
  }
}

bool is_gzip(std::string_view bytes) {
  return bytes.starts_with("\x1f\x8b");
}

}  // namespace

std::uint64_t most_unpacked_bytes() {
  const auto pages = static_cast<std::uint64_t>(std::max(::sysconf(_SC_PHYS_PAGES), 1L));
  return pages * static_cast<std::uint64_t>(std::max(::sysconf(_SC_PAGESIZE), 1L)) / 4 * 3;
}

FileBytes::FileBytes(const std::string& path, std::uint64_t most) {
  if (path.ends_with(".parquet")) {
    unpacked_ = io::parquet_to_json_lines(path);
    text_ = unpacked_;
    return;
  }
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(cat(path, ": cannot be opened: ", std::strerror(errno)));
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    fail(cat(path, ": is not a regular file"));
  }
  mapped_bytes_ = static_cast<std::size_t>(info.st_size);
  if (mapped_bytes_ > 0) {
    mapped_ = ::mmap(nullptr, mapped_bytes_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapped_ == MAP_FAILED) {
      mapped_ = nullptr;
      const int why = errno;
      ::close(fd);
      fail_machine(cat(path, ": cannot be mapped: ", std::strerror(why)));
    }
    text_ = {static_cast<const char*>(mapped_), mapped_bytes_};
  }
  ::close(fd);
  const bool gzip = is_gzip(text_);
  if (!gzip && !io::is_zstd(text_)) return;
  std::string unpacked;
  try {
    unpacked = gzip ? gunzip(path, most) : io::unzstd(text_, path, most);
  } catch (...) {
    ::munmap(mapped_, mapped_bytes_);
    throw;
  }
  ::munmap(mapped_, mapped_bytes_);
  mapped_ = nullptr;
  unpacked_ = std::move(unpacked);
  text_ = unpacked_;
}

FileBytes::~FileBytes() {
  if (mapped_ != nullptr) ::munmap(mapped_, mapped_bytes_);
}

}  // namespace glmtune::data
