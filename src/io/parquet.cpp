#include "io/parquet.h"

#include "base/cat.h"
#include "base/error.h"
#include "io/codec.h"
#include "io/parquet_column.h"

namespace glmtune::io {
namespace parquet {

// A node of the schema, with the levels that its presence and repetition have (Dremel encoding).
struct Node {
  SchemaElement element;
  unsigned max_definition = 0;
  unsigned max_repetition = 0;
  std::size_t first_leaf = 0;  // leaves [first_leaf, end_leaf) lie under it
  std::size_t end_leaf = 0;
  std::vector<Node> children;

  bool is_leaf() const { return element.type.has_value(); }
};

namespace {

constexpr int kMaxDepth = 64;

void check_leaf(const SchemaElement& e) {
  const bool readable = e.type != Type::kInt96 && e.type != Type::kFixedLenByteArray &&
                        e.annotation != Annotation::kOther;
  if (!readable) {
    fail(cat("column ", e.name,
             ": INT96, fixed-length bytes and decimals are not read; drop it or ",
             "store it as another type"));
  }
}

// Builds the tree of schema[at...] and moves `at` past it.
Node build(const std::vector<SchemaElement>& schema, std::size_t& at, unsigned definition,
           unsigned repetition, std::size_t& leaves, int depth) {
  if (at >= schema.size()) fail("the schema ends early");
  if (depth > kMaxDepth) fail("the schema is nested too deeply");
  Node node;
  node.element = schema[at++];
  const bool root = depth == 0;
  if (!root && node.element.repetition != Repetition::kRequired) ++definition;
  if (!root && node.element.repetition == Repetition::kRepeated) ++repetition;
  node.max_definition = definition;
  node.max_repetition = repetition;
  node.first_leaf = leaves;
  if (node.is_leaf()) {
    if (root) fail("the schema has no columns");
    check_leaf(node.element);
    ++leaves;
  } else {
    if (node.element.children < 1) fail(cat("group ", node.element.name, " has no members"));
    for (std::int64_t i = 0; i < node.element.children; ++i) {
      node.children.push_back(build(schema, at, definition, repetition, leaves, depth + 1));
    }
  }
  node.end_leaf = leaves;
  return node;
}

void collect_leaves(const Node& node, std::vector<const Node*>& out) {
  if (node.is_leaf()) out.push_back(&node);
  for (const Node& child : node.children) collect_leaves(child, out);
}

// Puts records together again from the columns of a row group.
class Assembler {
 public:
  Assembler(const Node& root, std::vector<ColumnData> columns)
      : root_(root), columns_(std::move(columns)), cursors_(columns_.size()) {}

  Value record() {
    Value::Object out;
    for (const Node& child : root_.children) out.emplace_back(child.element.name, field(child));
    return Value(std::move(out));
  }

  bool finished() const {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (cursors_[i].level != static_cast<std::size_t>(columns_[i].levels)) return false;
    }
    return true;
  }

 private:
  struct Cursor {
    std::size_t level = 0;
    std::size_t value = 0;
  };

  bool at_end(std::size_t leaf) const {
    return cursors_[leaf].level >= static_cast<std::size_t>(columns_[leaf].levels);
  }
  unsigned definition(const Node& node) const {
    const std::size_t leaf = node.first_leaf;
    if (at_end(leaf)) fail(cat("column ", node.element.name, " ends before the rows do"));
    const auto& levels = columns_[leaf].definition;
    return levels.empty() ? 0 : levels[cursors_[leaf].level];
  }
  // The next entry continues the list of `node` (and does not begin a new one).
  bool repeats(const Node& node) const {
    const std::size_t leaf = node.first_leaf;
    if (at_end(leaf)) return false;
    const auto& levels = columns_[leaf].repetition;
    return !levels.empty() && levels[cursors_[leaf].level] == node.max_repetition;
  }
  // An absent field or empty list takes one entry in every column below it.
  void skip(const Node& node) {
    for (std::size_t leaf = node.first_leaf; leaf < node.end_leaf; ++leaf) {
      if (at_end(leaf)) fail(cat("column ", node.element.name, " ends before the rows do"));
      ++cursors_[leaf].level;
    }
  }

  Value field(const Node& node) {
    if (node.element.repetition == Repetition::kRepeated) return repeated(node, node);
    if (node.element.repetition == Repetition::kOptional &&
        definition(node) < node.max_definition) {
      skip(node);
      return Value();
    }
    return content(node);
  }

  // The items of a repeated node; `item` is what each of them is (the node or its only member).
  Value repeated(const Node& node, const Node& item) {
    Value::Array items;
    if (definition(node) < node.max_definition) {
      skip(node);
      return Value(std::move(items));
    }
    do {
      items.push_back(&item == &node ? content(node) : field(item));
    } while (repeats(node));
    return Value(std::move(items));
  }

  Value content(const Node& node) {
    if (node.is_leaf()) return leaf_value(node);
    if (node.element.annotation == Annotation::kList && node.children.size() == 1) {
      return list(node);
    }
    if (node.element.annotation == Annotation::kMap && node.children.size() == 1) return map(node);
    Value::Object out;
    for (const Node& child : node.children) out.emplace_back(child.element.name, field(child));
    return Value(std::move(out));
  }

  // Three levels: list { repeated group { element } }; older writers leave the middle one out, by
  // the rules of LogicalTypes.md.
  Value list(const Node& node) {
    const Node& middle = node.children.front();
    if (middle.element.repetition != Repetition::kRepeated) return field(middle);
    const bool wrapped = !middle.is_leaf() && middle.children.size() == 1 &&
                         middle.element.name != "array" &&
                         middle.element.name != node.element.name + "_tuple";
    return repeated(middle, wrapped ? middle.children.front() : middle);
  }

  Value map(const Node& node) {
    const Node& pairs = node.children.front();
    if (pairs.element.repetition != Repetition::kRepeated || pairs.children.size() != 2) {
      fail(cat("map ", node.element.name, " is not a list of pairs"));
    }
    Value::Object out;
    const Value list_of_pairs = repeated(pairs, pairs);
    for (const Value& pair : list_of_pairs.as_array()) {
      const Value& key = pair.as_object()[0].second;
      if (!key.is_string()) fail(cat("map ", node.element.name, ": only string keys are read"));
      out.emplace_back(key.as_string(), pair.as_object()[1].second);
    }
    return Value(std::move(out));
  }

  Value leaf_value(const Node& node) {
    const std::size_t leaf = node.first_leaf;
    Cursor& cursor = cursors_[leaf];
    if (at_end(leaf) || cursor.value >= columns_[leaf].values.size()) {
      fail(cat("column ", node.element.name, " ends before the rows do"));
    }
    ++cursor.level;
    return columns_[leaf].values[cursor.value++];
  }

  const Node& root_;
  std::vector<ColumnData> columns_;
  std::vector<Cursor> cursors_;
};

FileMetadata read_footer(const ReadFile& file) {
  constexpr std::uint64_t kTail = 8;
  if (file.size() < 4 + kTail) fail("too short for a Parquet file; it is truncated");
  std::string tail(kTail, '\0');
  file.read(file.size() - kTail, tail.data(), kTail);
  if (tail.substr(4) == "PARE") fail("the file is encrypted, which is not supported");
  if (tail.substr(4) != "PAR1")
    fail("not a Parquet file, or a truncated one (it must end in PAR1)");
  ByteReader in(tail);
  const auto length = in.value<std::uint32_t>();
  if (length > file.size() - 4 - kTail) fail("the footer is longer than the file");
  std::string footer(length, '\0');
  file.read(file.size() - kTail - length, footer.data(), length);
  FileMetadata m = read_file_metadata(footer);
  std::int64_t rows = 0;
  for (const RowGroup& g : m.groups) {
    if (g.rows < 0 || rows > m.rows) fail("the row groups hold more rows than the file");
    rows += g.rows;
  }
  if (rows != m.rows) fail(cat("the row groups hold ", rows, " rows, the file says ", m.rows));
  return m;
}

std::string read_chunk(const ReadFile& file, const ColumnChunk& c) {
  std::int64_t begin = c.data_page_offset;
  if (c.dictionary_page_offset > 0 && c.dictionary_page_offset < begin) {
    begin = c.dictionary_page_offset;
  }
  const auto size = static_cast<std::int64_t>(file.size());
  if (begin < 4 || c.packed_bytes < 0 || begin > size || c.packed_bytes > size - begin) {
    fail("its pages lie outside the file");
  }
  std::string bytes(static_cast<std::size_t>(c.packed_bytes), '\0');
  file.read(static_cast<std::uint64_t>(begin), bytes.data(), bytes.size());
  return bytes;
}

}  // namespace
}  // namespace parquet

ParquetFile::ParquetFile(ReadFile file, parquet::FileMetadata metadata)
    : file_(std::move(file)), metadata_(std::move(metadata)) {}
ParquetFile::ParquetFile(ParquetFile&&) noexcept = default;
ParquetFile& ParquetFile::operator=(ParquetFile&&) noexcept = default;
ParquetFile::~ParquetFile() = default;

ParquetFile ParquetFile::open(const std::string& path) {
  ReadFile file(path);
  try {
    parquet::FileMetadata metadata = parquet::read_footer(file);
    std::size_t at = 0;
    std::size_t leaves = 0;
    auto root =
        std::make_unique<parquet::Node>(parquet::build(metadata.schema, at, 0, 0, leaves, 0));
    if (at != metadata.schema.size()) fail("the schema holds more than one tree");
    for (const parquet::RowGroup& g : metadata.groups) {
      if (g.columns.size() != leaves) {
        fail(cat("a row group has ", g.columns.size(), " columns, the schema ", leaves));
      }
    }
    ParquetFile f(std::move(file), std::move(metadata));
    f.root_ = std::move(root);
    return f;
  } catch (const MachineError&) {
    throw;
  } catch (const Error& e) {
    fail(cat(path, ": ", e.what()));
  }
}

std::vector<std::string> ParquetFile::columns() const {
  std::vector<std::string> names;
  for (const parquet::Node& child : root_->children) names.push_back(child.element.name);
  return names;
}

std::vector<Value> ParquetFile::read_group(std::size_t group) const {
  const parquet::RowGroup& g = metadata_.groups.at(group);
  std::vector<const parquet::Node*> leaves;
  parquet::collect_leaves(*root_, leaves);
  std::string column;
  try {
    std::vector<parquet::ColumnData> columns;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const parquet::Node& node = *leaves[i];
      column = cat(", column ", node.element.name);
      if (g.columns[i].type != *node.element.type) fail("its type is not the schema's");
      if (node.max_repetition == 0 && g.columns[i].values != g.rows) {
        fail(cat("it has ", g.columns[i].values, " values for ", g.rows, " rows"));
      }
      const parquet::LeafColumn leaf{.type = {*node.element.type, node.element.annotation},
                                     .max_definition = node.max_definition,
                                     .max_repetition = node.max_repetition};
      columns.push_back(
          parquet::read_column(parquet::read_chunk(file_, g.columns[i]), g.columns[i], leaf));
    }
    column.clear();
    parquet::Assembler assembler(*root_, std::move(columns));
    std::vector<Value> rows;
    for (std::int64_t r = 0; r < g.rows; ++r) rows.push_back(assembler.record());
    if (!assembler.finished()) fail("the columns hold more rows than the row group");
    return rows;
  } catch (const MachineError&) {
    throw;
  } catch (const Error& e) {
    fail(cat(path(), ": row group ", group, column, ": ", e.what()));
  }
}

std::string parquet_to_json_lines(const std::string& path, std::uint64_t most) {
  const ParquetFile file = ParquetFile::open(path);
  std::string out;
  for (std::size_t g = 0; g < file.groups(); ++g) {
    for (const Value& row : file.read_group(g)) {
      out += to_json(row);
      out.push_back('\n');
    }
    if (out.size() > most) fail_too_large(path, most);
  }
  return out;
}

}  // namespace glmtune::io
