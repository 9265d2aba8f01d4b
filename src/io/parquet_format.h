#pragma once
// The metadata of Parquet files (parquet.thrift, compact protocol), as far as reading needs it.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/byte_reader.h"

namespace glmtune::io::parquet {

enum class Type : std::uint8_t {
  kBoolean = 0,
  kInt32 = 1,
  kInt64 = 2,
  kInt96 = 3,
  kFloat = 4,
  kDouble = 5,
  kByteArray = 6,
  kFixedLenByteArray = 7
};
enum class Repetition : std::uint8_t { kRequired = 0, kOptional = 1, kRepeated = 2 };
enum class Encoding : std::uint8_t {
  kPlain = 0,
  kPlainDictionary = 2,
  kRle = 3,
  kBitPacked = 4,
  kDeltaBinaryPacked = 5,
  kDeltaLengthByteArray = 6,
  kDeltaByteArray = 7,
  kRleDictionary = 8,
  kByteStreamSplit = 9
};
enum class PageType : std::uint8_t { kData = 0, kIndex = 1, kDictionary = 2, kDataV2 = 3 };

// What a group or leaf stands for, from logicalType or the older converted_type.
enum class Annotation : std::uint8_t {
  kNone,
  kString,  // UTF8, ENUM, JSON
  kList,
  kMap,
  kUnsigned,
  kOther  // decimals, half floats and the like: not read
};

struct SchemaElement {
  std::string name;
  std::optional<Type> type;  // none: a group
  Repetition repetition = Repetition::kRequired;
  std::int64_t children = 0;
  Annotation annotation = Annotation::kNone;
};

struct ColumnChunk {
  Type type = Type::kBoolean;
  std::int64_t codec = 0;
  std::int64_t values = 0;
  std::int64_t packed_bytes = 0;
  std::int64_t data_page_offset = 0;
  std::int64_t dictionary_page_offset = 0;  // 0: none
};

struct RowGroup {
  std::vector<ColumnChunk> columns;
  std::int64_t rows = 0;
};

struct FileMetadata {
  std::vector<SchemaElement> schema;  // depth first; the first is the root
  std::int64_t rows = 0;
  std::vector<RowGroup> groups;
};

struct PageHeader {
  PageType type = PageType::kData;
  std::int64_t bytes = 0;         // unpacked
  std::int64_t packed_bytes = 0;  // in the file
  std::optional<std::uint32_t> crc;
  std::int64_t values = 0;
  std::int64_t encoding = 0;
  std::int64_t definition_encoding = 3;  // version 1 pages
  std::int64_t repetition_encoding = 3;
  std::int64_t definition_bytes = 0;  // version 2 pages
  std::int64_t repetition_bytes = 0;
  bool compressed = true;
};

FileMetadata read_file_metadata(std::string_view footer);
PageHeader read_page_header(ByteReader& in);

}  // namespace glmtune::io::parquet
