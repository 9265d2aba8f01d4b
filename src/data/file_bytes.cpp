#include <zlib.h>

#include <algorithm>
#include <memory>

#include "base/cat.h"
#include "base/error.h"
#include "data/rows.h"
#include "io/codec.h"
#include "io/host_memory.h"
#include "io/parquet.h"

namespace glmtune::data {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 20U;

// Unpacks the members of a gzip file one after the other; zeros may follow them, nothing else.
class Gunzip {
 public:
  Gunzip(const io::ReadFile& file, std::uint64_t most) : file_(file), most_(most) {
    constexpr int kLargestWindow = 15, kGzipOnly = 16;
    if (inflateInit2(&z_, kLargestWindow + kGzipOnly) != Z_OK) fail_machine("zlib: out of memory");
  }
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;
  ~Gunzip() { inflateEnd(&z_); }

  std::string unpack() {
    std::string packed(static_cast<std::size_t>(std::min<std::uint64_t>(file_.size(), kBlock)), 0);
    for (std::uint64_t at = 0; at < file_.size(); at += packed.size()) {
      packed.resize(std::min<std::size_t>(packed.size(), file_.size() - at));
      file_.read(at, packed.data(), packed.size());
      z_.next_in = reinterpret_cast<Bytef*>(packed.data());
      z_.avail_in = static_cast<uInt>(packed.size());
      while (z_.avail_in > 0) take_member();
    }
    if (inside_) damaged("unexpected end of file");
    return std::move(out_);
  }

 private:
  [[noreturn]] void damaged(const char* why) const {
    fail(cat(file_.path(), ": damaged gzip file after ", out_.size(), " unpacked bytes: ", why));
  }

  // What the input has of a member, or of what lies between members.
  void take_member() {
    if (!inside_ && members_ > 0) {
      if (*z_.next_in == 0) {
        ++z_.next_in;
        --z_.avail_in;
        return;
      }
      if (*z_.next_in != 0x1f) damaged("what follows the packed data is no gzip data");
      inflateReset(&z_);
    }
    inside_ = true;
    do {
      z_.next_out = reinterpret_cast<Bytef*>(block_.data());
      z_.avail_out = static_cast<uInt>(block_.size());
      const int code = inflate(&z_, Z_NO_FLUSH);
      out_.append(block_.data(), block_.size() - z_.avail_out);
      if (out_.size() > most_) io::fail_too_large(file_.path(), most_);
      if (code == Z_STREAM_END) {
        inside_ = false;
        ++members_;
        return;
      }
      // Z_BUF_ERROR: the input ends where the output block does.
      if (code != Z_OK && code != Z_BUF_ERROR)
        damaged(z_.msg == nullptr ? "unknown reason" : z_.msg);
    } while (z_.avail_in > 0 || z_.avail_out == 0);
  }

  const io::ReadFile& file_;
  std::uint64_t most_;
  z_stream z_{};
  std::string block_ = std::string(kBlock, '\0');
  std::string out_;
  bool inside_ = false;  // of a member
  std::int64_t members_ = 0;
};

}  // namespace

std::uint64_t most_unpacked_bytes() {
  return io::host_memory().available / 4 * 3;
}

FileBytes::FileBytes(const std::string& path, std::uint64_t most,
                     const std::vector<std::string>& columns) {
  if (path.ends_with(".parquet")) {
    const io::ParquetFile file = io::ParquetFile::open(path, columns);
    unpacked_ = io::parquet_to_json_lines(file, most);
    unread_columns_ = file.unread_columns();
    return;
  }
  file_.emplace(path);
  std::string start;
  const std::string_view magic = read(0, std::min<std::uint64_t>(4, size()), start);
  if (magic.starts_with("\x1f\x8b")) {
    unpacked_ = Gunzip(*file_, most).unpack();
  } else if (io::is_zstd(magic)) {
    unpacked_ = io::unzstd(io::read_file(path), path, most);
  } else {
    return;
  }
  file_.reset();
}

std::string_view FileBytes::read(std::uint64_t offset, std::size_t bytes,
                                 std::string& buffer) const {
  if (!file_) return std::string_view(unpacked_).substr(offset, bytes);
  buffer.resize(bytes);
  try {
    file_->read(offset, buffer.data(), bytes);
  } catch (const MachineError&) {
    throw;
  } catch (const Error& e) {
    // Rows that are gone are no bad rows, which a run may leave out.
    fail_machine(cat(e.what(), ". The file has changed while it was read: it had ", size(),
                     " bytes at first. Start again when nothing writes to it"));
  }
  return buffer;
}

}  // namespace glmtune::data
