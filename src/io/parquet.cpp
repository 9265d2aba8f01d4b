#include "io/parquet.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/cat.h"
#include "base/error.h"
#include "io/codec.h"
#include "io/parquet_column.h"

namespace glmtune::io {
namespace parquet {

// A node of the schema, with the levels that its presence and repetition have (Dremel encoding).
struct Node {
  SchemaElement element;
  std::string path;  // "messages.list.element.content"
  unsigned max_definition = 0;
  unsigned max_repetition = 0;
  std::size_t first_leaf = 0;  // leaves [first_leaf, end_leaf) lie under it, of those read
  std::size_t end_leaf = 0;
  std::size_t chunk = 0;  // of a leaf: its number in the file
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
Node build(const std::vector<SchemaElement>& schema, std::size_t& at, const std::string& above,
           unsigned definition, unsigned repetition, std::size_t& chunks, int depth) {
  if (at >= schema.size()) fail("the schema ends early");
  if (depth > kMaxDepth) fail("the schema is nested too deeply");
  Node node;
  node.element = schema[at++];
  const bool root = depth == 0;
  if (!root) node.path = above.empty() ? node.element.name : cat(above, ".", node.element.name);
  if (!root && node.element.repetition != Repetition::kRequired) ++definition;
  if (!root && node.element.repetition == Repetition::kRepeated) ++repetition;
  node.max_definition = definition;
  node.max_repetition = repetition;
  if (node.is_leaf()) {
    if (root) fail("the schema has no columns");
    node.chunk = chunks++;
  } else {
    if (node.element.children < 1) fail(cat("group ", node.element.name, " has no members"));
    for (std::int64_t i = 0; i < node.element.children; ++i) {
      node.children.push_back(
          build(schema, at, node.path, definition, repetition, chunks, depth + 1));
    }
  }
  return node;
}

// Of what is left of the tree: the leaves are read.
void number_leaves(Node& node, std::size_t& leaves) {
  node.first_leaf = leaves;
  if (node.is_leaf()) {
    check_leaf(node.element);
    ++leaves;
  }
  for (Node& child : node.children) number_leaves(child, leaves);
  node.end_leaf = leaves;
}

void collect_leaves(const Node& node, std::vector<const Node*>& out) {
  if (node.is_leaf()) out.push_back(&node);
  for (const Node& child : node.children) collect_leaves(child, out);
}

// Puts records together again from the columns of a row group.
class Assembler {
 public:
  // first_row: its number in the file, from 1.
  Assembler(const Node& root, const ReadFile& file, const RowGroup& group, std::int64_t first_row,
            MemoryLeft& memory)
      : root_(root), row_(first_row - 1), memory_(memory) {
    collect_leaves(root, leaves_);
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      const Node& node = *leaves_[i];
      const ColumnChunk& chunk = group.columns[node.chunk];
      in_column(i, [&] {
        if (chunk.type != *node.element.type) fail("its type is not the schema's");
        if (node.max_repetition == 0 && chunk.values != group.rows) {
          fail(cat("it has ", chunk.values, " values for ", group.rows, " rows"));
        }
        columns_.emplace_back(file, chunk,
                              LeafColumn{.type = {*node.element.type, node.element.annotation},
                                         .max_definition = node.max_definition,
                                         .max_repetition = node.max_repetition},
                              memory);
      });
    }
  }

  Value record() {
    ++row_;
    bytes_ = 0;
    Value::Object out;
    for (const Node& child : root_.children) out.emplace_back(child.element.name, field(child));
    return Value(std::move(out));
  }

  bool finished() {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (!at_end(i)) return false;
    }
    return true;
  }

 private:
  template <class Do>
  void in_column(std::size_t leaf, Do&& act) const {
    try {
      act();
    } catch (const MachineError&) {
      throw;
    } catch (const Error& e) {
      fail(cat("column ", leaves_[leaf]->path, ": ", e.what()));
    }
  }
  // Counts what a row takes: a few bytes of a file can stand for any number of items.
  void count(std::uint64_t bytes) {
    bytes_ += bytes;
    if (bytes_ > memory_.bytes()) {
      fail(cat("row ", row_, " takes more than the ", human_bytes(memory_.bytes()),
               " of memory that are left; take fewer rows, or write the file as JSON Lines, which ",
               "is not held in memory"));
    }
  }

  bool at_end(std::size_t leaf) {
    bool end = false;
    in_column(leaf, [&] { end = columns_[leaf].at_end(); });
    return end;
  }
  void require(std::size_t leaf) {
    if (at_end(leaf)) fail(cat("column ", leaves_[leaf]->path, " ends before the rows do"));
  }
  unsigned definition(const Node& node) {
    require(node.first_leaf);
    return columns_[node.first_leaf].definition();
  }
  // The next entry continues the list of `node` (and does not begin a new one).
  bool repeats(const Node& node) {
    return !at_end(node.first_leaf) &&
           columns_[node.first_leaf].repetition() == node.max_repetition;
  }
  // An absent field or empty list takes one entry in every column below it.
  void skip(const Node& node) {
    for (std::size_t leaf = node.first_leaf; leaf < node.end_leaf; ++leaf) {
      require(leaf);
      columns_[leaf].skip();
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
      count(sizeof(Value));
    } while (repeats(node));
    return Value(std::move(items));
  }

  Value content(const Node& node) {
    if (node.is_leaf()) return leaf_value(node);
    count(node.children.size() * sizeof(Value::Object::value_type));
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
    require(node.first_leaf);
    Value value = columns_[node.first_leaf].take();
    if (value.is_string()) {
      if (node.element.type == Type::kInt64) {
        fail(cat("row ", row_, ", column ", node.path, ": the unsigned integer ", value.as_string(),
                 " is beyond 2^63 - 1 and could only be read rounded; store it ",
                 "as text, or drop the column"));
      }
      count(value.as_string().size());
    }
    return value;
  }

  const Node& root_;
  std::int64_t row_;
  MemoryLeft& memory_;
  std::uint64_t bytes_ = 0;  // of the record
  std::vector<const Node*> leaves_;
  std::vector<ColumnPages> columns_;
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

}  // namespace
}  // namespace parquet

ParquetFile::ParquetFile(ReadFile file, parquet::FileMetadata metadata)
    : file_(std::move(file)), metadata_(std::move(metadata)) {}
ParquetFile::ParquetFile(ParquetFile&&) noexcept = default;
ParquetFile& ParquetFile::operator=(ParquetFile&&) noexcept = default;
ParquetFile::~ParquetFile() = default;

ParquetFile ParquetFile::open(const std::string& path, const std::vector<std::string>& columns) {
  ReadFile file(path);
  try {
    parquet::FileMetadata metadata = parquet::read_footer(file);
    std::size_t at = 0;
    std::size_t chunks = 0;
    auto root =
        std::make_unique<parquet::Node>(parquet::build(metadata.schema, at, "", 0, 0, chunks, 0));
    if (at != metadata.schema.size()) fail("the schema holds more than one tree");
    for (const parquet::RowGroup& g : metadata.groups) {
      if (g.columns.size() != chunks) {
        fail(cat("a row group has ", g.columns.size(), " columns, the schema ", chunks));
      }
    }
    ParquetFile f(std::move(file), std::move(metadata));
    std::erase_if(root->children, [&](const parquet::Node& child) {
      const std::string& name = child.element.name;
      const bool unread =
          !columns.empty() && std::find(columns.begin(), columns.end(), name) == columns.end();
      if (unread) f.unread_columns_.push_back(name);
      return unread;
    });
    std::size_t leaves = 0;
    parquet::number_leaves(*root, leaves);
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

void ParquetFile::for_each_row(std::size_t group, parquet::MemoryLeft& memory,
                               const std::function<void(Value&&)>& take) const {
  const parquet::RowGroup& g = metadata_.groups.at(group);
  if (g.rows == 0) return;  // its columns need not have pages
  std::int64_t first = 1;
  for (std::size_t i = 0; i < group; ++i) first += metadata_.groups[i].rows;
  const std::uint64_t left = memory.bytes();
  std::uint64_t taken = 0;
  const auto here = [&](auto&& act) {
    try {
      act();
    } catch (const MachineError&) {
      throw;
    } catch (const Error& e) {
      fail(cat(path(), ": row group ", group, ", ", e.what()));
    }
  };
  std::optional<parquet::Assembler> assembler;
  here([&] { assembler.emplace(*root_, file_, g, first, memory); });
  for (std::int64_t r = 0; r < g.rows; ++r) {
    Value row;
    here([&] { row = assembler->record(); });
    const std::uint64_t before = memory.bytes();
    take(std::move(row));
    taken += before - memory.bytes();
  }
  here([&] {
    if (!assembler->finished()) fail("the columns hold more rows than the row group");
  });
  memory = parquet::MemoryLeft(left - taken);
}

std::vector<Value> ParquetFile::read_group(std::size_t group) const {
  parquet::MemoryLeft memory(std::numeric_limits<std::int64_t>::max());
  std::vector<Value> rows;
  for_each_row(group, memory, [&](Value&& row) { rows.push_back(std::move(row)); });
  return rows;
}

std::string parquet_to_json_lines(const ParquetFile& file, std::uint64_t most) {
  parquet::MemoryLeft memory(most);
  std::string out;
  for (std::size_t g = 0; g < file.groups(); ++g) {
    file.for_each_row(g, memory, [&](const Value& row) {
      const std::string line = to_json(row);
      if (line.size() >= memory.bytes()) fail_too_large(file.path(), most);
      memory.take(line.size() + 1, "a row");
      out += line;
      out.push_back('\n');
    });
  }
  return out;
}

}  // namespace glmtune::io
