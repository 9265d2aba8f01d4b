#pragma once
// Decompression of whole blocks.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace glmtune::io {

// Exactly `size` bytes come out; anything else, and damaged input, is an Error.
std::string gunzip_block(std::string_view packed, std::size_t size);
std::string unsnappy_block(std::string_view packed, std::size_t size);
std::string unzstd_block(std::string_view packed, std::size_t size);

// A whole file of one or several frames, of unknown size. `where` begins the messages; more than
// `most` bytes are an Error.
bool is_zstd(std::string_view bytes);
std::string unzstd(std::string_view packed, std::string_view where, std::uint64_t most);
[[noreturn]] void fail_too_large(std::string_view where, std::uint64_t most);

// CRC-32 (zlib's polynomial).
std::uint32_t crc32_of(std::string_view bytes);

}  // namespace glmtune::io
