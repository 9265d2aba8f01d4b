#include "io/parquet_column.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

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

// What a value and its two levels take beside a string's bytes.
constexpr std::uint64_t kEntryBytes = sizeof(Value) + 2 * sizeof(std::uint32_t);

}  // namespace

void MemoryLeft::take(std::uint64_t bytes, std::string_view what) {
  if (bytes > bytes_) {
    fail(cat(what, " of ", human_bytes(bytes), " does not fit into the ", human_bytes(bytes_),
             " of memory that are left; write the file with smaller pages, or as JSON Lines"));
  }
  bytes_ -= bytes;
}

ColumnPages::ColumnPages(const ReadFile& file, const ColumnChunk& chunk, const LeafColumn& leaf,
                         MemoryLeft& memory)
    : file_(file), chunk_(chunk), leaf_(leaf), memory_(memory) {
  if (chunk.values < 0 || chunk.values > kMostValues) {
    fail(cat(chunk.values, " values in one row group are not possible"));
  }
  std::int64_t begin = chunk.data_page_offset;
  if (chunk.dictionary_page_offset > 0 && chunk.dictionary_page_offset < begin) {
    begin = chunk.dictionary_page_offset;
  }
  const auto size = static_cast<std::int64_t>(file.size());
  if (begin < 4 || chunk.packed_bytes < 0 || begin > size || chunk.packed_bytes > size - begin) {
    fail("its pages lie outside the file");
  }
  at_ = static_cast<std::uint64_t>(begin);
  end_ = at_ + static_cast<std::uint64_t>(chunk.packed_bytes);
}

// False behind the last page.
bool ColumnPages::load_entries() {
  while (level_ == levels_) {
    if (entries_ == chunk_.values) return false;
    load();
  }
  return true;
}

Value ColumnPages::take() {
  const std::size_t values = indices_.empty() ? values_.size() : indices_.size();
  // The levels of a group's columns contradict each other.
  if (definition() != leaf_.max_definition || value_ >= values)
    fail("its levels ask for a value where it has none");
  ++level_;
  const std::size_t at = value_++;
  return indices_.empty() ? std::move(values_[at]) : dictionary_[indices_[at]];
}

// A header does not say how long it is, and may hold texts as statistics.
PageHeader ColumnPages::next_header() {
  constexpr std::uint64_t kFirst = 512, kLargest = std::uint64_t{16} << 20U;
  for (std::uint64_t window = kFirst;; window *= 8) {
    std::string bytes(std::min(window, end_ - at_), '\0');
    file_.read(at_, bytes.data(), bytes.size());
    ByteReader in(bytes);
    try {
      const PageHeader header = read_page_header(in);
      at_ += in.position();
      return header;
    } catch (const Error&) {
      if (bytes.size() < window || window > kLargest) throw;
    }
  }
}

std::string ColumnPages::next_bytes(std::int64_t bytes) {
  if (static_cast<std::uint64_t>(bytes) > end_ - at_) fail("the data ends early");
  std::string out(static_cast<std::size_t>(bytes), '\0');
  file_.read(at_, out.data(), out.size());
  at_ += out.size();
  return out;
}

void ColumnPages::load() {
  const PageHeader header = next_header();
  if (header.bytes < 0 || header.packed_bytes < 0 || header.bytes > kLargestPage) {
    fail("a page has an impossible size");
  }
  if (header.type == PageType::kIndex) {
    (void)next_bytes(header.packed_bytes);
    return;
  }
  const bool is_data = header.type == PageType::kData || header.type == PageType::kDataV2;
  if (header.values < 0 || (is_data && header.values > chunk_.values - entries_)) {
    fail("the pages hold more values than the column");
  }
  if (!is_data && header.values > header.bytes) {
    fail("a dictionary has more values than bytes");
  }
  if (is_data) {
    values_.clear();
    indices_.clear();
    repetition_.clear();
    definition_.clear();
    level_ = value_ = levels_ = 0;
    memory_.give_back(std::exchange(page_bytes_, 0));
  }
  // Unpacked, and again as values.
  const std::uint64_t bytes = static_cast<std::uint64_t>(header.packed_bytes) +
                              2 * static_cast<std::uint64_t>(header.bytes) +
                              static_cast<std::uint64_t>(header.values) * kEntryBytes;
  memory_.take(bytes, is_data ? "a page" : "a dictionary");
  if (is_data) page_bytes_ = bytes;
  const std::string packed = next_bytes(header.packed_bytes);
  if (header.crc && crc32_of(packed) != *header.crc) {
    fail("a page does not match its checksum; the file is damaged");
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

void ColumnPages::read_dictionary(const PageHeader& header, std::string_view packed) {
  const std::string page = unpack(packed, chunk_.codec, static_cast<std::size_t>(header.bytes));
  ByteReader in(page);
  dictionary_ = read_values(in, Encoding::kPlain, leaf_.type, header.values, memory_.bytes());
}

void ColumnPages::read_data(const PageHeader& header, std::string_view packed) {
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
  repetition_ = levels(leaf_.max_repetition, header.repetition_encoding);
  definition_ = levels(leaf_.max_definition, header.definition_encoding);
  read_entries(header, in);
}

// Levels are never compressed and carry no length of their own.
void ColumnPages::read_data_v2(const PageHeader& header, std::string_view packed) {
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
  repetition_ = levels(r, leaf_.max_repetition);
  definition_ = levels(d, leaf_.max_definition);
  const std::int64_t size = header.bytes - header.repetition_bytes - header.definition_bytes;
  if (size < 0) fail("a page has an impossible size");
  const std::string_view rest = outer.rest();
  // Writers leave out the data of a page that holds nulls only.
  const std::int64_t codec = header.compressed && !rest.empty() ? chunk_.codec : 0;
  const std::string values = unpack(rest, codec, static_cast<std::size_t>(size));
  ByteReader in(values);
  read_entries(header, in);
}

void ColumnPages::read_entries(const PageHeader& header, ByteReader& in) {
  std::int64_t present = header.values;
  if (leaf_.max_definition > 0) {
    present = 0;
    for (const std::uint32_t d : definition_) {
      if (d > leaf_.max_definition) fail("a definition level is too large");
      present += d == leaf_.max_definition ? 1 : 0;
    }
  }
  for (const std::uint32_t r : repetition_) {
    if (r > leaf_.max_repetition) fail("a repetition level is too large");
  }
  const auto encoding = static_cast<Encoding>(header.encoding);
  if (encoding != Encoding::kPlainDictionary && encoding != Encoding::kRleDictionary) {
    values_ = read_values(in, encoding, leaf_.type, present, memory_.bytes());
  } else if (present > 0) {
    const unsigned width = in.u8();
    indices_ = read_hybrid(in, width, present);
    for (const std::uint32_t i : indices_) {
      if (i >= dictionary_.size()) fail("an index points beyond the dictionary");
    }
  }
  levels_ = static_cast<std::size_t>(header.values);
  entries_ += header.values;
}

}  // namespace glmtune::io::parquet
