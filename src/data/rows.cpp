#include "data/rows.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "base/cat.h"
#include "base/error.h"
#include "data/array_elements.h"
#include "data/shuffle.h"
#include "io/files.h"
#include "io/json_integers.h"

namespace glmtune::data {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kBlank = " \t\r\n";

// Hands out what follows `at`, block by block, until `take` returns false.
template <class Take>
void for_each_block(const FileBytes& file, std::uint64_t at, Take&& take) {
  constexpr std::uint64_t kBlock = std::uint64_t{4} << 20U;
  std::string buffer;
  for (; at < file.size(); at += kBlock) {
    const auto bytes = static_cast<std::size_t>(std::min(kBlock, file.size() - at));
    if (!take(file.read(at, bytes, buffer))) return;
  }
}

// Behind a byte order mark.
std::uint64_t begin_of_text(const FileBytes& file, const std::string& path) {
  std::string buffer;
  const auto bytes = std::min<std::uint64_t>(kByteOrderMark.size(), file.size());
  const std::string_view start = file.read(0, bytes, buffer);
  if (start.starts_with("\xFF\xFE") || start.starts_with("\xFE\xFF"))
    fail(cat(path, ": not UTF-8 (a UTF-16 byte order mark); save it as UTF-8"));
  return start == kByteOrderMark ? kByteOrderMark.size() : 0;
}

// The first one that is not blank; 0 where all are.
char first_character(const FileBytes& file, std::uint64_t start) {
  char found = 0;
  for_each_block(file, start, [&](std::string_view text) {
    const std::size_t at = text.find_first_not_of(kBlank);
    if (at != std::string_view::npos) found = text[at];
    return at == std::string_view::npos;
  });
  return found;
}

// Takes the position off ": line 2, column 3: expected ...".
std::string position_of(std::string_view problem, std::int64_t& line, std::int64_t& column) {
  const auto take = [&](std::string_view name, std::int64_t& number) {
    if (!problem.starts_with(name)) return;
    problem.remove_prefix(name.size());
    const auto end = std::from_chars(problem.data(), problem.data() + problem.size(), number).ptr;
    problem.remove_prefix(static_cast<std::size_t>(end - problem.data()));
  };
  take(": line ", line);
  take(", column ", column);
  if (problem.starts_with(": ")) problem.remove_prefix(2);
  return std::string(problem);
}

// Gives columns that are integers which a Value rounds as text, which is what Python makes of them.
void keep_integers(io::Value& row, std::string_view text) {
  constexpr double kLeastRounded = 0x1p63;
  for (auto& [name, value] : row.as_object()) {
    if (!value.is_number() || value.is_int() || std::abs(value.as_double()) < kLeastRounded)
      continue;
    std::string integer = io::first_oversized_integer(text, {name});
    if (!integer.empty()) value = io::Value(std::move(integer));
  }
}

// What of a chat row a template may render as it is.
std::vector<std::string_view> rendered_columns() {
  return {"messages", "conversations", "tools"};
}

}  // namespace

void refuse_oversized_integer(const std::string& integer, const std::string& where) {
  if (!integer.empty())
    fail(cat(where, ": the integer ", integer.substr(0, 40), integer.size() > 40 ? "..." : "",
             " is beyond ±2^63 and could only be read rounded; write it as text"));
}

Rows::Rows(const std::vector<std::string>& paths, const RowSelection& selection, RowReading reading)
    : reading_(std::move(reading)) {
  for (std::string& path : data_files(paths, name_of_split(selection.split))) {
    File file;
    file.bytes = std::make_unique<FileBytes>(path, most_unpacked_bytes(), reading_.columns);
    file.path = std::move(path);
    const auto index = static_cast<std::int32_t>(files_.size());
    const std::uint64_t start = begin_of_text(*file.bytes, file.path);
    file.array = first_character(*file.bytes, start) == '[';
    files_.push_back(std::move(file));
    if (files_.back().array) {
      index_array(index, start);
    } else {
      index_lines(index, start);
    }
  }
  if (selection.shuffle_seed) {
    selected_ = permutation(available(), *selection.shuffle_seed, 0);
  } else {
    selected_.resize(all_.size());
    std::iota(selected_.begin(), selected_.end(), 0);
  }
  const RowRange range = slice_of_split(selection.split, available());
  std::int64_t end = range.end;
  if (selection.limit)
    end = std::min(end, range.begin + std::max<std::int64_t>(0, *selection.limit));
  selected_ = std::vector<std::int64_t>(selected_.begin() + range.begin, selected_.begin() + end);
  if (selected_.empty()) {
    fail(cat(files_.front().path, files_.size() > 1 ? " and others" : "", ": no rows",
             all_.empty() ? " in the file"
                          : cat(" in split ", selection.split, " of ", all_.size(),
                                " rows; set another split, or null in place of a validation set")));
  }
}

void Rows::index_lines(std::int32_t file, std::uint64_t start) {
  Span line{.file = file, .number = 1, .offset = static_cast<std::int64_t>(start), .bytes = 0};
  bool blank = true;
  const auto end_line = [&] {
    if (line.bytes > reading_.max_line_bytes)
      fail(cat(files_[static_cast<std::size_t>(file)].path, ":", line.number, ": a line of ",
               line.bytes, " bytes; at most ", reading_.max_line_bytes, " are read"));
    if (!blank) all_.push_back(line);
  };
  for_each_block(*files_[static_cast<std::size_t>(file)].bytes, start, [&](std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      const std::string_view piece = text.substr(0, end);
      line.bytes += static_cast<std::int64_t>(piece.size());
      blank = blank && piece.find_first_not_of(kBlank) == std::string_view::npos;
      if (end == std::string_view::npos) return true;
      end_line();
      line.offset += line.bytes + 1;
      line.bytes = 0;
      ++line.number;
      blank = true;
      text.remove_prefix(end + 1);
    }
    return true;
  });
  end_line();
}

void Rows::index_array(std::int32_t file, std::uint64_t start) {
  File& f = files_[static_cast<std::size_t>(file)];
  const auto span_of = [&](const ArrayElement& element) {
    if (element.bytes > reading_.max_line_bytes)
      fail(cat(f.path, ": line ", element.line, ": an element of ", element.bytes,
               " bytes; at most ", reading_.max_line_bytes, " are read"));
    f.places.push_back({element.line, element.column});
    return Span{.file = file,
                .number = static_cast<std::int64_t>(f.places.size()),
                .offset = element.offset,
                .bytes = element.bytes};
  };
  ArrayScanner scanner(f.path, start, [&](const ArrayElement& e) { all_.push_back(span_of(e)); });
  const std::size_t first = all_.size();
  try {
    for_each_block(*f.bytes, start, [&](std::string_view text) {
      scanner.scan(text);
      return true;
    });
    if (scanner.has_ended()) return;
  } catch (const MachineError&) {
    throw;
  } catch (const Error&) {
    parse_from(first);
    throw;
  }
  parse_from(first);
  if (scanner.is_inside()) {
    ArrayElement element = scanner.element();
    element.bytes = static_cast<std::int64_t>(f.bytes->size()) - element.offset;
    const Span last = span_of(element);
    std::string buffer;
    (void)parse(last, bytes_of(last, buffer));
  }
  scanner.finish();
}

// In an array that the scanner loses its way in: the parser knows best where it goes wrong.
void Rows::parse_from(std::size_t first) const {
  std::string buffer;
  for (std::size_t i = first; i < all_.size(); ++i) (void)parse(all_[i], bytes_of(all_[i], buffer));
}

void Rows::check_integers(std::int64_t i) const {
  std::string buffer;
  refuse_oversized_integer(
      io::first_oversized_integer(bytes_of(span(i), buffer), rendered_columns()), where(i));
}

bool Rows::is_columnar(std::int64_t i) const {
  return files_[static_cast<std::size_t>(span(i).file)].path.ends_with(".parquet");
}

std::span<const std::string> Rows::unread_columns(std::int64_t i) const {
  const File& f = files_[static_cast<std::size_t>(span(i).file)];
  return f.bytes->unread_columns();
}

std::string Rows::where(std::int64_t i) const {
  return where(span(i));
}

std::string Rows::where(const Span& s) const {
  const File& f = files_[static_cast<std::size_t>(s.file)];
  return f.array ? cat(f.path, ": row ", s.number) : cat(f.path, ":", s.number);
}

io::Value Rows::row(std::int64_t i) const {
  const Span& s = span(i);
  std::string buffer;
  const std::string_view text = bytes_of(s, buffer);
  io::Value value = parse(s, text);
  if (!value.is_object()) {
    fail(cat(where(s), ": a row must be an object, found ", value.kind_name()));
  }
  keep_integers(value, text);
  return value;
}

io::Value Rows::parse(const Span& s, std::string_view text) const {
  try {
    return io::parse_json(text, "");
  } catch (const MachineError&) {
    throw;
  } catch (const Error& e) {
    refuse(s, text, e.what());  // names line and column in the row's own text
  }
}

void Rows::refuse(const Span& s, std::string_view text, std::string_view problem) const {
  const File& f = files_[static_cast<std::size_t>(s.file)];
  std::int64_t line = 1, column = 1;
  const std::string reason = position_of(problem, line, column);
  if (f.array) {
    const Place& start = f.places[static_cast<std::size_t>(s.number - 1)];
    if (line == 1) column += start.column - 1;
    throw BrokenArray(
        cat(where(s), ": line ", line + start.line - 1, ", column ", column, ": ", reason));
  }
  const std::size_t last = text.find_last_not_of(kBlank);
  const bool goes_on = last != std::string_view::npos &&
                       std::string_view("{[,:").find(text[last]) != std::string_view::npos;
  fail(
      cat(where(s), ": column ", column, ": ", reason,
          goes_on ? "; expected one row a line, or one JSON array of rows in the whole file" : ""));
}

std::string_view Rows::bytes_of(const Span& s, std::string& buffer) const {
  return files_[static_cast<std::size_t>(s.file)].bytes->read(
      static_cast<std::uint64_t>(s.offset), static_cast<std::size_t>(s.bytes), buffer);
}

void Rows::add_to(ContentHash& hash) const {
  for (const File& file : files_) {
    if (file.array) continue;
    for (const std::string& name : file.bytes->unread_columns()) hash.add(name);
  }
  std::string buffer;
  for (std::int64_t i = 0; i < size(); ++i) {
    const Span& s = span(i);
    hash.add(s.number);
    hash.add(bytes_of(s, buffer));
  }
}

}  // namespace glmtune::data
