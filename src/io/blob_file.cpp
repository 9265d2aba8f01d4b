#include "io/blob_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/cat.h"
#include "base/error.h"
#include "io/files.h"
#include "io/sha1.h"

namespace glmtune::io {

BlobFile::BlobFile(std::string blob, const HubFileHead& head, Shared& shared)
    : blob_(std::move(blob)), incomplete_(blob_ + ".incomplete"), head_(head), shared_(shared) {
  fd_ = ::open(incomplete_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_errno(incomplete_, "creating", errno);
  struct stat info {};
  if (::fstat(fd_, &info) == 0) size_ = static_cast<std::uint64_t>(info.st_size);
  shared_.bytes += static_cast<std::int64_t>(size_);
  if (size_ > head_.size) {
    BlobFile::begin(0);  // of another file, or nobody says how long it is
  } else if (head_.is_sha256()) {
    try {
      hash_what_is_there();
    } catch (...) {
      ::close(fd_);
      throw;
    }
  }
}

BlobFile::~BlobFile() {
  if (fd_ >= 0) ::close(fd_);
}

void BlobFile::hash_what_is_there() {
  const ReadFile file(incomplete_);
  std::vector<char> chunk(std::min<std::uint64_t>(size_, std::uint64_t{1} << 20U));
  for (std::uint64_t at = 0; at < size_; at += chunk.size()) {
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(chunk.size(), size_ - at));
    file.read(at, chunk.data(), n);
    sha_.add(chunk.data(), n);
    if (shared_.stop) throw HubStopped{};
  }
}

void BlobFile::begin(std::uint64_t offset) {
  if (offset == size_) return;
  if (::ftruncate(fd_, 0) != 0) fail_errno(incomplete_, "truncating", errno);
  shared_.bytes -= static_cast<std::int64_t>(size_);
  size_ = 0;
  sha_ = {};
}

void BlobFile::add(const char* data, std::size_t bytes) {
  if (shared_.stop) throw HubStopped{};
  if (head_.size > 0 && bytes > head_.size - size_) {
    fail(cat(incomplete_, ": more bytes arrive than the ", head_.size, " announced"));
  }
  if (head_.is_sha256()) sha_.add(data, bytes);
  // At its own offset: two processes that both hold the lock, on a file system that only pretends
  // to have locks, write the same bytes to the same places.
  while (bytes > 0) {
    const ssize_t n = ::pwrite(fd_, data, bytes, static_cast<off_t>(size_));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno(incomplete_, cat("writing at offset ", size_), errno);
    data += n;
    bytes -= static_cast<std::size_t>(n);
    size_ += static_cast<std::uint64_t>(n);
    shared_.bytes += n;
  }
}

std::string BlobFile::difference() {
  if (head_.size > 0 && size_ != head_.size) return cat(size_, " bytes, not ", head_.size);
  if (!head_.is_sha256() && !head_.is_git_blob) return "";
  const std::string found =
      head_.is_sha256() ? std::exchange(sha_, {}).hex() : git_blob_name(read_file(incomplete_));
  if (found == head_.etag) return "";
  return cat(head_.is_sha256() ? "sha256 " : "git's sha1 ", found, ", not ", head_.etag);
}

void BlobFile::publish() {
  if (::fsync(fd_) != 0 && errno != EINVAL && errno != ENOTSUP) {
    fail_errno(incomplete_, "fsync", errno);
  }
  if (::close(std::exchange(fd_, -1)) != 0) fail_errno(incomplete_, "closing", errno);
  if (::rename(incomplete_.c_str(), blob_.c_str()) != 0) {
    // Somebody else's process may have been faster where locks do not lock.
    if (errno != ENOENT || !std::filesystem::exists(blob_)) {
      fail_errno(blob_, "renaming into place", errno);
    }
  }
  sync_folder(std::filesystem::path(blob_).parent_path().string());
}

void BlobFile::discard() {
  begin(0);
  ::unlink(incomplete_.c_str());
}

}  // namespace glmtune::io
