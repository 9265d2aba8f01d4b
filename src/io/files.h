#pragma once
// Files: reading exactly, writing so that a reader sees the old file or the whole new one. Every
// message names the path, the system's reason and what to do; a full disk is a MachineError.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace glmtune::io {

// Throws the error that the failed system call `doing` on `path` stands for.
[[noreturn]] void fail_errno(const std::string& path, std::string_view doing, int error);

// Whether such an error is about a path or its permissions: all others are the machine's.
bool is_users_error(int error);

// An open regular file for reading at any offset.
class ReadFile {
 public:
  explicit ReadFile(const std::string& path);
  ReadFile(ReadFile&& other) noexcept;
  ReadFile& operator=(ReadFile&& other) noexcept;
  ~ReadFile();

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  // Exactly `bytes` bytes at `offset`; a file that ends earlier is an error.
  void read(std::uint64_t offset, void* dst, std::size_t bytes) const;

 private:
  std::string path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

// Written beside its final name, then fsynced, renamed, and its folder fsynced by commit(). Without
// commit() the destructor removes what was written.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void append(const void* data, std::size_t bytes);
  void append(std::string_view text) { append(text.data(), text.size()); }
  std::uint64_t written() const { return written_; }
  std::uint32_t checksum() const { return checksum_; }  // crc32c of what was appended
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  int fd_ = -1;
  std::uint64_t written_ = 0;
  std::uint32_t checksum_ = 0;
};

std::string read_file(const std::string& path);
void write_file(const std::string& path, std::string_view bytes);  // atomic
void copy_file(const ReadFile& from, const std::string& to);       // atomic, bytes only
void copy_file(const std::string& from, const std::string& to);

std::uint32_t file_checksum(const std::string& path);  // crc32c of its bytes

// Makes names created, renamed or removed in a folder durable.
void sync_folder(const std::string& folder);

// Makes a network file system look again which names a folder has; what it remembers of a missing
// file would otherwise hold for up to a minute, although another machine has written it.
void look_again(const std::string& folder);

// Removes what AtomicFiles of this path left behind whose processes were killed. Only where nobody
// is writing one.
void remove_left_behind(const std::string& path);

// Gives a finished folder its name in one step, durably; an empty folder of that name is replaced.
void rename_folder(const std::string& from, const std::string& to);

// Points the symbolic link `link` at `target` (relative to the link's folder), replacing an older
// link in one step. False where the file system has no symbolic links.
bool replace_symlink(const std::string& link, const std::string& target);

// Bytes an unprivileged user can still write where `path` (or its nearest existing parent) lies;
// the largest number where the file system does not say.
std::uint64_t free_bytes(const std::string& path);

// "1.5 GiB", for messages.
std::string human_bytes(std::uint64_t bytes);

}  // namespace glmtune::io
