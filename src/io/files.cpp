#include "io/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>
#include <vector>

#include "base/cat.h"
#include "base/error.h"
#include "io/crc32c.h"

namespace glmtune::io {
namespace {

// Some network file systems refuse larger single transfers.
constexpr std::size_t kLargestTransfer = std::size_t{64} << 20U;

std::string folder_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

std::string temporary_start(const std::string& path) {
  return cat(".", std::filesystem::path(path).filename().string(), ".tmp-");
}

// Calls make(name) with names beside `path` until one is not taken, and returns that. Processes in
// containers share their numbers with those on other machines, and with killed ones whose files are
// still there.
template <class Make>
std::string make_beside(const std::string& path, Make&& make) {
  static std::atomic<unsigned> counter{0};
  for (;;) {
    std::string name = (std::filesystem::path(folder_of(path)) /
                        cat(temporary_start(path), ::getpid(), "-", counter++))
                           .string();
    if (make(name) || errno != EEXIST) return name;
  }
}

void sync_fd(int fd, const std::string& path) {
  while (::fsync(fd) != 0) {
    if (errno == EINTR) continue;
    // A file system that cannot sync this kind of file says so; nothing can be done about it.
    if (errno == EINVAL || errno == ENOTSUP) return;
    fail_errno(path, "fsync", errno);
  }
}

}  // namespace

bool is_users_error(int error) {
  constexpr std::array kUsers{EACCES, EPERM,  EROFS,        ENOENT, ENOTDIR,
                              EISDIR, EEXIST, ENAMETOOLONG, ELOOP,  ENOTEMPTY};
  return std::find(kUsers.begin(), kUsers.end(), error) != kUsers.end();
}

void fail_errno(const std::string& path, std::string_view doing, int error) {
  const std::string message = cat(path, ": ", doing, " failed: ", std::strerror(error));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      fail_machine(cat(message, "; free space (", human_bytes(free_bytes(path)),
                       " are left there) or write to another folder"));
    case EACCES:
    case EPERM:
      fail(cat(message, "; check the permissions of the file and its folder"));
    case EROFS:
      fail(cat(message, "; choose a folder that can be written"));
    case ELOOP:
      fail(cat(message, "; the link leads back to itself"));
    case EMFILE:
    case ENFILE:
      fail_machine(cat(message, "; raise the limit of open files (ulimit -n)"));
    default:
      if (is_users_error(error)) fail(message);
      fail_machine(message);
  }
}

ReadFile::ReadFile(const std::string& path)
    : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (fd_ < 0) fail_errno(path, "opening for reading", errno);
  struct stat info {};
  const int error = ::fstat(fd_, &info) == 0 ? 0 : errno;
  if (error != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd_);
    if (error != 0) fail_errno(path, "opening for reading", error);
    fail(cat(path,
             S_ISDIR(info.st_mode) ? ": is a folder; expected a file" : ": is not a regular file"));
  }
  size_ = static_cast<std::uint64_t>(info.st_size);
}

ReadFile::ReadFile(ReadFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

ReadFile& ReadFile::operator=(ReadFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  return *this;
}

ReadFile::~ReadFile() {
  if (fd_ >= 0) ::close(fd_);
}

void ReadFile::read(std::uint64_t offset, void* dst, std::size_t bytes) const {
  auto* out = static_cast<char*>(dst);
  while (bytes > 0) {
    const ssize_t n =
        ::pread(fd_, out, std::min(bytes, kLargestTransfer), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno(path_, cat("reading ", bytes, " bytes at offset ", offset), errno);
    if (n == 0) {
      fail(cat(path_, ": ends ", bytes, " bytes early (at offset ", offset,
               "); the file is truncated, fetch or copy it again"));
    }
    out += n;
    offset += static_cast<std::uint64_t>(n);
    bytes -= static_cast<std::size_t>(n);
  }
}

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  temporary_ = make_beside(path, [&](const std::string& name) {
    fd_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return fd_ >= 0;
  });
  if (fd_ < 0) fail_errno(path, "creating", errno);
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::append(const void* data, std::size_t bytes) {
  const auto* in = static_cast<const char*>(data);
  checksum_ = crc32c(data, bytes, checksum_);
  while (bytes > 0) {
    const ssize_t n = ::write(fd_, in, std::min(bytes, kLargestTransfer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno(path_, cat("writing ", bytes, " bytes at offset ", written_), errno);
    in += n;
    written_ += static_cast<std::uint64_t>(n);
    bytes -= static_cast<std::size_t>(n);
  }
}

void AtomicFile::commit() {
  sync_fd(fd_, path_);
  if (::close(std::exchange(fd_, -1)) != 0) fail_errno(path_, "closing", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    fail_errno(path_, "renaming into place", errno);
  temporary_.clear();
  sync_folder(folder_of(path_));
}

std::string read_file(const std::string& path) {
  const ReadFile file(path);
  std::string bytes(file.size(), '\0');
  file.read(0, bytes.data(), bytes.size());
  return bytes;
}

void write_file(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.append(bytes);
  file.commit();
}

namespace {

// Calls f(bytes, count) for a file's contents, piece by piece.
template <class F>
void for_each_piece(const ReadFile& in, F&& f) {
  std::vector<char> piece(std::min<std::uint64_t>(in.size(), std::uint64_t{4} << 20U));
  for (std::uint64_t at = 0; at < in.size(); at += piece.size()) {
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), in.size() - at));
    in.read(at, piece.data(), n);
    f(piece.data(), n);
  }
}

}  // namespace

void copy_file(const ReadFile& from, const std::string& to) {
  AtomicFile out(to);
  for_each_piece(from, [&](const char* bytes, std::size_t n) { out.append(bytes, n); });
  out.commit();
}

void copy_file(const std::string& from, const std::string& to) {
  copy_file(ReadFile(from), to);
}

std::uint32_t file_checksum(const std::string& path) {
  std::uint32_t sum = 0;
  for_each_piece(ReadFile(path),
                 [&](const char* bytes, std::size_t n) { sum = crc32c(bytes, n, sum); });
  return sum;
}

void sync_folder(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail_errno(folder, "opening", errno);
  try {
    sync_fd(fd, folder);
  } catch (...) {
    ::close(fd);
    throw;
  }
  ::close(fd);
}

void look_again(const std::string& folder) {
  // Opening is where NFS asks its server (close-to-open consistency), for folders too.
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) ::close(fd);
}

void remove_left_behind(const std::string& path) {
  const std::string start = temporary_start(path);
  std::error_code error;
  std::vector<std::filesystem::path> found;
  for (std::filesystem::directory_iterator at(folder_of(path), error);
       !error && at != std::filesystem::directory_iterator(); at.increment(error))
    if (at->path().filename().string().starts_with(start)) found.push_back(at->path());
  for (const auto& file : found) std::filesystem::remove(file, error);
}

void rename_folder(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail_errno(to, cat("renaming ", from), errno);
  sync_folder(folder_of(to));
}

bool replace_symlink(const std::string& link, const std::string& target) {
  bool is_made = false;
  const std::string temporary = make_beside(link, [&](const std::string& name) {
    return is_made = ::symlink(target.c_str(), name.c_str()) == 0;
  });
  if (!is_made) {
    if (errno == EPERM || errno == ENOTSUP || errno == ENOSYS) return false;
    fail_errno(link, "creating a symbolic link", errno);
  }
  if (::rename(temporary.c_str(), link.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    fail_errno(link, "replacing a symbolic link", error);
  }
  sync_folder(folder_of(link));
  return true;
}

std::uint64_t free_bytes(const std::string& path) {
  std::filesystem::path p = std::filesystem::absolute(path);
  struct statvfs info {};
  while (::statvfs(p.c_str(), &info) != 0) {
    if (p == p.parent_path()) return 0;
    p = p.parent_path();
  }
  // Some network file systems report nothing at all; writing will tell.
  if (info.f_blocks == 0) return std::numeric_limits<std::uint64_t>::max();
  return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return cat(bytes, " bytes");
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), value < 9.995 ? "%.2f %s" : "%.1f %s", value,
                kUnits[unit]);
  return text.data();
}

}  // namespace glmtune::io
