#include "io/codec.h"

#include <snappy.h>
#include <zlib.h>
#include <zstd.h>

#include <memory>

#include "base/cat.h"
#include "base/error.h"
#include "io/files.h"

namespace glmtune::io {
namespace {

[[noreturn]] void damaged(std::string_view codec, std::string_view reason) {
  fail(cat("damaged ", codec, " data: ", reason));
}

void check_size(std::string_view codec, std::size_t found, std::size_t expected) {
  if (found != expected) {
    damaged(codec, cat("it unpacks to ", found, " bytes, expected ", expected));
  }
}

}  // namespace

std::string gunzip_block(std::string_view packed, std::size_t size) {
  // Deflate packs 1032 to one at best; a larger size is damage, not worth its memory.
  if (size / 1100 > packed.size()) damaged("gzip", "it is too short for what it should unpack to");
  z_stream z{};
  if (inflateInit2(&z, 15 + 32) != Z_OK) fail_machine("zlib: out of memory");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&z, inflateEnd);
  std::string out(size, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  z.avail_in = static_cast<uInt>(packed.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(size);
  const int code = inflate(&z, Z_FINISH);
  if (code != Z_STREAM_END)
    damaged("gzip", z.msg != nullptr ? z.msg : "it does not end as it should");
  check_size("gzip", size - z.avail_out, size);
  return out;
}

std::string unsnappy_block(std::string_view packed, std::size_t size) {
  std::size_t found = 0;
  if (!snappy::GetUncompressedLength(packed.data(), packed.size(), &found)) {
    damaged("snappy", "its length cannot be read");
  }
  check_size("snappy", found, size);
  std::string out(size, '\0');
  if (!snappy::RawUncompress(packed.data(), packed.size(), out.data())) {
    damaged("snappy", "a copy points outside");
  }
  return out;
}

std::string unzstd_block(std::string_view packed, std::size_t size) {
  const unsigned long long says = ZSTD_getFrameContentSize(packed.data(), packed.size());
  if (says == ZSTD_CONTENTSIZE_ERROR) damaged("zstd", "it has no frame");
  if (says != ZSTD_CONTENTSIZE_UNKNOWN) check_size("zstd", says, size);
  std::string out(size, '\0');
  const std::size_t found = ZSTD_decompress(out.data(), size, packed.data(), packed.size());
  if (ZSTD_isError(found) != 0) damaged("zstd", ZSTD_getErrorName(found));
  check_size("zstd", found, size);
  return out;
}

bool is_zstd(std::string_view bytes) {
  return bytes.starts_with("\x28\xB5\x2F\xFD");
}

void fail_too_large(std::string_view where, std::uint64_t most) {
  fail(cat(
      where, ": unpacks to more than ", human_bytes(most),
      ", most of the memory that is left here; unpack it to a plain file, which is not held in ",
      "memory"));
}

std::string unzstd(std::string_view packed, std::string_view where, std::uint64_t most) {
  const std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(),
                                                                             ZSTD_freeDStream);
  if (stream == nullptr) fail_machine("zstd: out of memory");
  ZSTD_inBuffer in{packed.data(), packed.size(), 0};
  std::string out;
  std::string block(ZSTD_DStreamOutSize(), '\0');
  std::size_t state = 0;
  while (in.pos < in.size) {
    ZSTD_outBuffer to{block.data(), block.size(), 0};
    state = ZSTD_decompressStream(stream.get(), &to, &in);
    if (ZSTD_isError(state) != 0) {
      fail(cat(where, ": damaged zstd file after ", out.size(),
               " unpacked bytes: ", ZSTD_getErrorName(state)));
    }
    out.append(block, 0, to.pos);
    if (out.size() > most) fail_too_large(where, most);
    // A full block may leave more to flush although all input is taken; after the end of a frame
    // the decoder would ask for the header of another.
    while (state != 0 && in.pos == in.size && to.pos == to.size) {
      to.pos = 0;
      state = ZSTD_decompressStream(stream.get(), &to, &in);
      if (ZSTD_isError(state) != 0) fail(cat(where, ": ", ZSTD_getErrorName(state)));
      out.append(block, 0, to.pos);
      if (out.size() > most) fail_too_large(where, most);
    }
  }
  if (state != 0) {
    fail(cat(where, ": zstd file ends early, after ", out.size(), " unpacked bytes"));
  }
  return out;
}

std::uint32_t crc32_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace glmtune::io
