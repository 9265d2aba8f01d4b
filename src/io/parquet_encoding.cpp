#include "io/parquet_encoding.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/cat.h"
#include "base/error.h"
#include "io/utf8.h"

namespace glmtune::io::parquet {
namespace {

// Values of `width` bits (at most 64), the lowest bit first; the last byte may be partly used.
class BitReader {
 public:
  BitReader(std::string_view bytes, unsigned width) : bytes_(bytes), width_(width) {}

  std::uint64_t next() {
    std::uint64_t x = 0;
    for (unsigned done = 0; done < width_;) {
      const std::size_t byte = at_ / 8;
      const unsigned inside = at_ % 8;
      const unsigned n = std::min(8 - inside, width_ - done);
      const std::uint64_t bits =
          (static_cast<unsigned char>(bytes_[byte]) >> inside) & ((1U << n) - 1U);
      x |= bits << done;
      done += n;
      at_ += n;
    }
    return x;
  }

 private:
  std::string_view bytes_;
  unsigned width_;
  std::size_t at_ = 0;  // in bits
};

std::string_view bits_of(ByteReader& in, std::uint64_t count, unsigned width) {
  if (count > std::uint64_t{1} << 40U) fail("a packed group is implausibly long");
  return in.take((count * width + 7) / 8);
}

Value integer(std::int64_t x, const LeafType& leaf) {
  if (leaf.annotation != Annotation::kUnsigned) return Value(x);
  if (leaf.type == Type::kInt32) return Value(x & 0xFFFFFFFF);
  if (x < 0) return Value(std::to_string(static_cast<std::uint64_t>(x)));
  return Value(x);
}

Value text(std::string_view bytes) {
  if (!is_utf8(bytes)) fail("a string is not UTF-8 (binary columns are not read)");
  return Value(bytes);
}

void expect(bool ok, Encoding encoding, const LeafType& leaf) {
  if (!ok) {
    fail(cat("encoding ", static_cast<int>(encoding), " does not fit type ",
             static_cast<int>(leaf.type)));
  }
}

Value plain_value(ByteReader& in, const LeafType& leaf) {
  switch (leaf.type) {
    case Type::kInt32:
      return integer(in.value<std::int32_t>(), leaf);
    case Type::kInt64:
      return integer(in.value<std::int64_t>(), leaf);
    case Type::kFloat:
      return Value(static_cast<double>(in.value<float>()));
    case Type::kDouble:
      return Value(in.value<double>());
    default:
      return text(in.take(in.value<std::uint32_t>()));
  }
}

std::vector<Value> plain(ByteReader& in, const LeafType& leaf, std::int64_t count) {
  std::vector<Value> out;
  if (leaf.type == Type::kBoolean) {
    BitReader bits(bits_of(in, static_cast<std::uint64_t>(count), 1), 1);
    for (std::int64_t i = 0; i < count; ++i) out.emplace_back(bits.next() != 0);
    return out;
  }
  out.reserve(std::min(static_cast<std::size_t>(count), in.left()));
  for (std::int64_t i = 0; i < count; ++i) out.push_back(plain_value(in, leaf));
  return out;
}

// Byte k of every value, then byte k + 1 of every value.
std::vector<Value> byte_stream_split(ByteReader& in, const LeafType& leaf, std::int64_t count) {
  const bool wide = leaf.type == Type::kDouble || leaf.type == Type::kInt64;
  const std::size_t size = wide ? 8 : 4;
  const auto n = static_cast<std::size_t>(count);
  if (n > in.left()) fail("the data ends early");
  const std::string_view bytes = in.take(n * size);
  std::string joined(n * size, '\0');
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < size; ++k) joined[i * size + k] = bytes[k * n + i];
  }
  ByteReader values(joined);
  return plain(values, leaf, count);
}

std::vector<Value> delta_length_strings(ByteReader& in, std::int64_t count) {
  std::vector<Value> out;
  for (const std::int64_t n : read_delta(in, count)) {
    if (n < 0) fail("a string has a negative length");
    out.push_back(text(in.take(static_cast<std::uint64_t>(n))));
  }
  return out;
}

// Each string: so many bytes of the one before, then its own.
std::vector<Value> delta_strings(ByteReader& in, std::int64_t count, std::uint64_t most) {
  const std::vector<std::int64_t> prefixes = read_delta(in, count);
  const std::vector<std::int64_t> suffixes = read_delta(in, count);
  std::vector<Value> out;
  std::string current;
  for (std::size_t i = 0; i < prefixes.size(); ++i) {
    if (prefixes[i] < 0 || static_cast<std::uint64_t>(prefixes[i]) > current.size() ||
        suffixes[i] < 0) {
      fail("a string shares more with the one before than that has");
    }
    const auto shared = static_cast<std::uint64_t>(prefixes[i]);
    if (shared > most) fail("its strings, unpacked, do not fit into the memory that is left");
    most -= shared;
    current.resize(static_cast<std::size_t>(prefixes[i]));
    current += in.take(static_cast<std::uint64_t>(suffixes[i]));
    out.push_back(text(current));
  }
  return out;
}

}  // namespace

std::vector<std::uint32_t> read_hybrid(ByteReader& in, unsigned width, std::int64_t count) {
  if (width > 32) fail(cat("a bit width of ", width, " is not allowed"));
  std::vector<std::uint32_t> out;
  const auto wanted = static_cast<std::size_t>(count);
  while (out.size() < wanted) {
    const std::uint64_t head = in.varint();
    const std::uint64_t n = head >> 1U;
    if (n == 0) fail("a run of no values");
    if ((head & 1U) == 0) {
      std::uint32_t x = 0;
      const std::string_view bytes = in.take((width + 7) / 8);
      std::memcpy(&x, bytes.data(), bytes.size());
      out.insert(out.end(),
                 static_cast<std::size_t>(std::min<std::uint64_t>(n, wanted - out.size())), x);
      continue;
    }
    // n groups of eight; the last group of a page may be cut short.
    const std::uint64_t have = std::min<std::uint64_t>(n, wanted) * 8;
    const std::uint64_t used = std::min<std::uint64_t>(have, wanted - out.size());
    const std::string_view bytes =
        in.take(std::min<std::uint64_t>((have * width + 7) / 8, in.left()));
    if (bytes.size() < (used * width + 7) / 8) fail("the data ends early");
    BitReader bits(bytes, width);
    for (std::uint64_t i = 0; i < used; ++i) out.push_back(static_cast<std::uint32_t>(bits.next()));
  }
  return out;
}

std::vector<std::int64_t> read_delta(ByteReader& in, std::int64_t count) {
  const std::uint64_t block = in.varint();
  const std::uint64_t miniblocks = in.varint();
  const std::uint64_t total = in.varint();
  std::int64_t value = in.zigzag();
  if (total != static_cast<std::uint64_t>(count)) {
    fail(cat("a delta page holds ", total, " values, expected ", count));
  }
  if (miniblocks == 0 || miniblocks > 4096 || block == 0 || block > 1U << 20U ||
      block % miniblocks != 0) {
    fail("the blocks of a delta page have an impossible size");
  }
  const std::uint64_t per_miniblock = block / miniblocks;
  std::vector<std::int64_t> out;
  if (count > 0) out.push_back(value);
  while (out.size() < static_cast<std::size_t>(count)) {
    const std::int64_t least = in.zigzag();
    const std::string_view widths = in.take(miniblocks);
    for (std::uint64_t m = 0; m < miniblocks && out.size() < static_cast<std::size_t>(count); ++m) {
      const auto width = static_cast<unsigned char>(widths[m]);
      if (width > 64) fail(cat("a bit width of ", int{width}, " is not allowed"));
      BitReader bits(bits_of(in, per_miniblock, width), width);
      for (std::uint64_t i = 0; i < per_miniblock && out.size() < static_cast<std::size_t>(count);
           ++i) {
        value = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) +
                                          static_cast<std::uint64_t>(least) + bits.next());
        out.push_back(value);
      }
    }
  }
  return out;
}

std::vector<Value> read_values(ByteReader& in, Encoding encoding, const LeafType& leaf,
                               std::int64_t count, std::uint64_t most) {
  const bool integers = leaf.type == Type::kInt32 || leaf.type == Type::kInt64;
  const bool numbers = integers || leaf.type == Type::kFloat || leaf.type == Type::kDouble;
  const bool strings = leaf.type == Type::kByteArray;
  switch (encoding) {
    case Encoding::kPlain:
      return plain(in, leaf, count);
    case Encoding::kRle: {
      expect(leaf.type == Type::kBoolean, encoding, leaf);
      ByteReader part(in.take(in.value<std::uint32_t>()));
      std::vector<Value> out;
      for (const std::uint32_t x : read_hybrid(part, 1, count)) out.emplace_back(x != 0);
      return out;
    }
    case Encoding::kDeltaBinaryPacked: {
      expect(integers, encoding, leaf);
      std::vector<Value> out;
      for (const std::int64_t x : read_delta(in, count)) {
        // 32-bit columns wrap around in 32 bits.
        out.push_back(integer(leaf.type == Type::kInt32 ? static_cast<std::int32_t>(x) : x, leaf));
      }
      return out;
    }
    case Encoding::kDeltaLengthByteArray:
      expect(strings, encoding, leaf);
      return delta_length_strings(in, count);
    case Encoding::kDeltaByteArray:
      expect(strings, encoding, leaf);
      return delta_strings(in, count, most);
    case Encoding::kByteStreamSplit:
      expect(numbers, encoding, leaf);
      return byte_stream_split(in, leaf, count);
    default:
      fail(cat("encoding ", static_cast<int>(encoding), " is not supported"));
  }
}

}  // namespace glmtune::io::parquet
