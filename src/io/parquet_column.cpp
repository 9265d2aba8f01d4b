#include "io/parquet_column.h"

#include <bit>
#include <string>

#include "base/cat.h"
#include "base/error.h"
#include "io/codec.h"

namespace glmtune::io::parquet {
namespace {

constexpr std::int64_t kMostValues = std::int64_t{1} << 28;
constexpr std::int64_t kLargestPage = std::int64_t{1} << 31;

std::string unpack(std::string_view packed, std::int64_t codec, std::size_t size) {
  switch (codec) {
    case 0:
      if (packed.size() != size) {
        fail(cat("an uncompressed page has ", packed.size(), " bytes, expected ", size));
      }
      return std::string(packed);
    case 1:
      return unsnappy_block(packed, size);
    case 2:
      return gunzip_block(packed, size);
    case 6:
      return unzstd_block(packed, size);
    default: {
      constexpr const char* kNames[] = {"", "", "", "LZO", "Brotli", "LZ4", "", "LZ4_RAW"};
      fail(cat("compression ", codec >= 3 && codec <= 7 ? kNames[codec] : std::to_string(codec),
               " is not supported; write the file with snappy, gzip, zstd or none"));
    }
  }
}

class ColumnReader {
 public:
  ColumnReader(const ColumnChunk& chunk, const LeafColumn& leaf) : chunk_(chunk), leaf_(leaf) {}

  ColumnData read(std::string_view pages) {
    if (chunk_.values < 0 || chunk_.values > kMostValues) {
      fail(cat(chunk_.values, " values in one row group are not possible"));
    }
    ByteReader in(pages);
    while (out_.levels < chunk_.values) {
      const PageHeader header = read_page_header(in);
      if (header.bytes < 0 || header.packed_bytes < 0 || header.bytes > kLargestPage) {
        fail("a page has an impossible size");
      }
      const std::string_view packed = in.take(static_cast<std::uint64_t>(header.packed_bytes));
      if (header.crc && crc32_of(packed) != *header.crc) {
        fail("a page does not match its checksum; the file is damaged");
      }
      if (header.type == PageType::kIndex) continue;
      if (header.values < 0 ||
          (header.type != PageType::kDictionary && header.values > chunk_.values - out_.levels)) {
        fail("the pages hold more values than the column");
      }
      switch (header.type) {
        case PageType::kDictionary:
          read_dictionary(header, packed);
          break;
        case PageType::kData:
          read_data(header, packed);
          break;
        default:
          read_data_v2(header, packed);
      }
    }
    return std::move(out_);
  }

 private:
  void read_dictionary(const PageHeader& header, std::string_view packed) {
    const std::string page = unpack(packed, chunk_.codec, static_cast<std::size_t>(header.bytes));
    ByteReader in(page);
    dictionary_ = read_values(in, Encoding::kPlain, leaf_.type, header.values);
  }

  void read_data(const PageHeader& header, std::string_view packed) {
    const std::string page = unpack(packed, chunk_.codec, static_cast<std::size_t>(header.bytes));
    ByteReader in(page);
    const auto levels = [&](unsigned largest, std::int64_t encoding) -> std::vector<std::uint32_t> {
      if (largest == 0) return {};
      if (encoding != static_cast<std::int64_t>(Encoding::kRle)) {
        fail("bit-packed levels (a form long deprecated) are not supported");
      }
      ByteReader part(in.take(in.value<std::uint32_t>()));
      return read_hybrid(part, static_cast<unsigned>(std::bit_width(largest)), header.values);
    };
    const auto repetition = levels(leaf_.max_repetition, header.repetition_encoding);
    const auto definition = levels(leaf_.max_definition, header.definition_encoding);
    add(header, repetition, definition, in);
  }

  // Levels are never compressed and carry no length of their own.
  void read_data_v2(const PageHeader& header, std::string_view packed) {
    ByteReader outer(packed);
    if (header.repetition_bytes < 0 || header.definition_bytes < 0) fail("a negative length");
    const std::string_view r = outer.take(static_cast<std::uint64_t>(header.repetition_bytes));
    const std::string_view d = outer.take(static_cast<std::uint64_t>(header.definition_bytes));
    const auto levels = [&](std::string_view bytes, unsigned largest) {
      ByteReader part(bytes);
      return largest == 0
                 ? std::vector<std::uint32_t>{}
                 : read_hybrid(part, static_cast<unsigned>(std::bit_width(largest)), header.values);
    };
    const auto repetition = levels(r, leaf_.max_repetition);
    const auto definition = levels(d, leaf_.max_definition);
    const std::int64_t size = header.bytes - header.repetition_bytes - header.definition_bytes;
    if (size < 0) fail("a page has an impossible size");
    const std::string_view rest = outer.rest();
    // Writers leave out the data of a page that holds nulls only.
    const std::int64_t codec = header.compressed && !rest.empty() ? chunk_.codec : 0;
    const std::string values = unpack(rest, codec, static_cast<std::size_t>(size));
    ByteReader in(values);
    add(header, repetition, definition, in);
  }

  void add(const PageHeader& header, const std::vector<std::uint32_t>& repetition,
           const std::vector<std::uint32_t>& definition, ByteReader& in) {
    std::int64_t present = header.values;
    if (leaf_.max_definition > 0) {
      present = 0;
      for (const std::uint32_t d : definition) {
        if (d > leaf_.max_definition) fail("a definition level is too large");
        present += d == leaf_.max_definition ? 1 : 0;
      }
    }
    for (const std::uint32_t r : repetition) {
      if (r > leaf_.max_repetition) fail("a repetition level is too large");
    }
    out_.levels += header.values;
    out_.repetition.insert(out_.repetition.end(), repetition.begin(), repetition.end());
    out_.definition.insert(out_.definition.end(), definition.begin(), definition.end());
    const auto encoding = static_cast<Encoding>(header.encoding);
    if (encoding != Encoding::kPlainDictionary && encoding != Encoding::kRleDictionary) {
      for (Value& v : read_values(in, encoding, leaf_.type, present)) {
        out_.values.push_back(std::move(v));
      }
      return;
    }
    if (present == 0) return;
    const unsigned width = in.u8();
    for (const std::uint32_t i : read_hybrid(in, width, present)) {
      if (i >= dictionary_.size()) fail("an index points beyond the dictionary");
      out_.values.push_back(dictionary_[i]);
    }
  }

  const ColumnChunk& chunk_;
  const LeafColumn& leaf_;
  std::vector<Value> dictionary_;
  ColumnData out_;
};

}  // namespace

ColumnData read_column(std::string_view pages, const ColumnChunk& chunk, const LeafColumn& leaf) {
  return ColumnReader(chunk, leaf).read(pages);
}

}  // namespace glmtune::io::parquet
