#include "io/parquet_format.h"

#include "base/cat.h"
#include "base/error.h"

namespace glmtune::io::parquet {
namespace {

// Wire types of Thrift's compact protocol.
enum Wire : std::uint8_t {
  kStop = 0,
  kTrue = 1,
  kFalse = 2,
  kByte = 3,
  kI16 = 4,
  kI32 = 5,
  kI64 = 6,
  kDouble = 7,
  kBinary = 8,
  kList = 9,
  kSet = 10,
  kMap = 11,
  kStruct = 12
};

constexpr int kMaxDepth = 32;

class Thrift {
 public:
  explicit Thrift(ByteReader& in) : in_(in) {}

  // Calls field(id, wire) for every field of a struct; a field it does not take (returns false) is
  // skipped.
  template <class F>
  void structure(F&& field) {
    if (++depth_ > kMaxDepth) fail("metadata is nested too deeply");
    std::int64_t id = 0;
    while (true) {
      const std::uint8_t head = in_.u8();
      const auto wire = static_cast<Wire>(head & 0x0FU);
      if (wire == kStop) break;
      const unsigned delta = head >> 4U;
      id = delta != 0 ? id + delta : in_.zigzag();
      if (!field(id, wire)) skip(wire);
    }
    --depth_;
  }

  // Calls item(i) for every element of a list of structs.
  template <class F>
  void list(Wire wire, F&& item) {
    if (wire != kList) fail("metadata: a list was expected");
    Wire of = kStop;
    const std::uint64_t n = list_size(of);
    if (of != kStruct) fail("metadata: a list of structs was expected");
    for (std::uint64_t i = 0; i < n; ++i) item();
  }

  std::int64_t integer(Wire wire) {
    if (wire == kByte) return static_cast<std::int8_t>(in_.u8());
    if (wire != kI16 && wire != kI32 && wire != kI64) fail("metadata: an integer was expected");
    return in_.zigzag();
  }
  std::string text(Wire wire) {
    if (wire != kBinary) fail("metadata: a string was expected");
    return std::string(in_.take(in_.varint()));
  }
  static bool boolean(Wire wire) {
    if (wire != kTrue && wire != kFalse) fail("metadata: a bool was expected");
    return wire == kTrue;
  }

  void skip(Wire wire) {
    switch (wire) {
      case kTrue:
      case kFalse:
        return;
      case kByte:
        in_.u8();
        return;
      case kI16:
      case kI32:
      case kI64:
        in_.varint();
        return;
      case kDouble:
        in_.take(8);
        return;
      case kBinary:
        in_.take(in_.varint());
        return;
      case kList:
      case kSet: {
        Wire of = kStop;
        const std::uint64_t n = list_size(of);
        for (std::uint64_t i = 0; i < n; ++i) skip_element(of);
        return;
      }
      case kMap: {
        const std::uint64_t n = in_.varint();
        if (n == 0) return;
        const std::uint8_t kinds = in_.u8();
        if (n > in_.left()) fail("metadata: a map is larger than the data");
        for (std::uint64_t i = 0; i < n; ++i) {
          skip_element(static_cast<Wire>(kinds >> 4U));
          skip_element(static_cast<Wire>(kinds & 0x0FU));
        }
        return;
      }
      case kStruct:
        structure([](std::int64_t, Wire) { return false; });
        return;
      default:
        fail(cat("metadata: unknown wire type ", int{wire}));
    }
  }

 private:
  std::uint64_t list_size(Wire& of) {
    const std::uint8_t head = in_.u8();
    of = static_cast<Wire>(head & 0x0FU);
    std::uint64_t n = head >> 4U;
    if (n == 15) n = in_.varint();
    if (n > in_.left()) fail("metadata: a list is larger than the data");
    return n;
  }

  // In collections a bool takes a byte; in structs it is part of the field's head.
  void skip_element(Wire wire) {
    if (wire == kTrue || wire == kFalse) {
      in_.u8();
      return;
    }
    if (++depth_ > kMaxDepth) fail("metadata is nested too deeply");
    skip(wire);
    --depth_;
  }

  ByteReader& in_;
  int depth_ = 0;
};

template <class E>
E enumerator(std::int64_t x, std::int64_t last, std::string_view what) {
  if (x < 0 || x > last) fail(cat("metadata: unknown ", what, " ", x));
  return static_cast<E>(x);
}

// Field ids of the union LogicalType.
Annotation logical_annotation(Thrift& t) {
  Annotation a = Annotation::kOther;
  t.structure([&](std::int64_t id, Wire wire) {
    switch (id) {
      case 1:   // STRING
      case 4:   // ENUM
      case 12:  // JSON
        a = Annotation::kString;
        return false;
      case 2:
        a = Annotation::kMap;
        return false;
      case 3:
        a = Annotation::kList;
        return false;
      case 6:   // DATE
      case 7:   // TIME
      case 8:   // TIMESTAMP
      case 11:  // UNKNOWN (always null)
        a = Annotation::kNone;
        return false;
      case 10:  // INTEGER {1: bits, 2: signed}
        a = Annotation::kNone;
        if (wire != kStruct) return false;
        t.structure([&](std::int64_t inner, Wire w) {
          if (inner == 2 && !Thrift::boolean(w)) a = Annotation::kUnsigned;
          return inner == 2;
        });
        return true;
      default:
        return false;
    }
  });
  return a;
}

Annotation converted_annotation(std::int64_t x) {
  switch (x) {
    case 0:   // UTF8
    case 4:   // ENUM
    case 19:  // JSON
      return Annotation::kString;
    case 1:
    case 2:
      return Annotation::kMap;
    case 3:
      return Annotation::kList;
    case 11:
    case 12:
    case 13:
    case 14:
      return Annotation::kUnsigned;
    case 5:   // DECIMAL
    case 20:  // BSON
    case 21:  // INTERVAL
      return Annotation::kOther;
    default:
      return Annotation::kNone;
  }
}

SchemaElement schema_element(Thrift& t) {
  SchemaElement e;
  std::optional<Annotation> logical;
  t.structure([&](std::int64_t id, Wire wire) {
    switch (id) {
      case 1:
        e.type = enumerator<Type>(t.integer(wire), 7, "type");
        return true;
      case 3:
        e.repetition = enumerator<Repetition>(t.integer(wire), 2, "repetition");
        return true;
      case 4:
        e.name = t.text(wire);
        return true;
      case 5:
        e.children = t.integer(wire);
        return true;
      case 6:
        e.annotation = converted_annotation(t.integer(wire));
        return true;
      case 10:
        if (wire != kStruct) return false;
        logical = logical_annotation(t);
        return true;
      default:
        return false;
    }
  });
  if (logical) e.annotation = *logical;
  return e;
}

ColumnChunk column_chunk(Thrift& t) {
  ColumnChunk c;
  bool present = false;
  t.structure([&](std::int64_t id, Wire wire) {
    if (id == 1) fail(cat("a column lies in another file (", t.text(wire), ")"));
    if (id == 8) fail("a column is encrypted");
    if (id != 3 || wire != kStruct) return false;
    present = true;
    t.structure([&](std::int64_t field, Wire w) {
      switch (field) {
        case 1:
          c.type = enumerator<Type>(t.integer(w), 7, "type");
          return true;
        case 4:
          c.codec = t.integer(w);
          return true;
        case 5:
          c.values = t.integer(w);
          return true;
        case 7:
          c.packed_bytes = t.integer(w);
          return true;
        case 9:
          c.data_page_offset = t.integer(w);
          return true;
        case 11:
          c.dictionary_page_offset = t.integer(w);
          return true;
        default:
          return false;
      }
    });
    return true;
  });
  if (!present) fail("a column has no metadata");
  return c;
}

// Data pages have four numbers; of a dictionary page's fields only the first two are.
void data_page(Thrift& t, PageHeader& h, std::int64_t numbers) {
  t.structure([&](std::int64_t id, Wire wire) {
    if (id < 1 || id > numbers) return false;
    const std::int64_t x = t.integer(wire);
    (id == 1   ? h.values
     : id == 2 ? h.encoding
     : id == 3 ? h.definition_encoding
               : h.repetition_encoding) = x;
    return true;
  });
}

void data_page_v2(Thrift& t, PageHeader& h) {
  t.structure([&](std::int64_t id, Wire wire) {
    if (id == 7) {
      h.compressed = Thrift::boolean(wire);
      return true;
    }
    if (id != 1 && id != 4 && id != 5 && id != 6) return false;
    const std::int64_t x = t.integer(wire);
    (id == 1   ? h.values
     : id == 4 ? h.encoding
     : id == 5 ? h.definition_bytes
               : h.repetition_bytes) = x;
    return true;
  });
}

}  // namespace

FileMetadata read_file_metadata(std::string_view footer) {
  ByteReader in(footer);
  Thrift t(in);
  FileMetadata m;
  t.structure([&](std::int64_t id, Wire wire) {
    switch (id) {
      case 2:
        t.list(wire, [&] { m.schema.push_back(schema_element(t)); });
        return true;
      case 3:
        m.rows = t.integer(wire);
        return true;
      case 4:
        t.list(wire, [&] {
          RowGroup group;
          t.structure([&](std::int64_t field, Wire w) {
            if (field == 1) {
              t.list(w, [&] { group.columns.push_back(column_chunk(t)); });
              return true;
            }
            if (field != 3) return false;
            group.rows = t.integer(w);
            return true;
          });
          m.groups.push_back(std::move(group));
        });
        return true;
      default:
        return false;
    }
  });
  return m;
}

PageHeader read_page_header(ByteReader& in) {
  Thrift t(in);
  PageHeader h;
  t.structure([&](std::int64_t id, Wire wire) {
    switch (id) {
      case 1:
        h.type = enumerator<PageType>(t.integer(wire), 3, "page type");
        return true;
      case 2:
        h.bytes = t.integer(wire);
        return true;
      case 3:
        h.packed_bytes = t.integer(wire);
        return true;
      case 4:
        h.crc = static_cast<std::uint32_t>(t.integer(wire));
        return true;
      case 5:
      case 7:
        if (wire != kStruct) return false;
        data_page(t, h, id == 5 ? 4 : 2);
        return true;
      case 8:
        if (wire != kStruct) return false;
        data_page_v2(t, h);
        return true;
      default:
        return false;
    }
  });
  return h;
}

}  // namespace glmtune::io::parquet
