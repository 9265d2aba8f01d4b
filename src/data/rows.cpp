#include "data/rows.h"

#include <algorithm>
#include <numeric>

#include "base/cat.h"
#include "base/error.h"
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
std::uint64_t begin_of_text(const FileBytes& file) {
  std::string buffer;
  const auto bytes = std::min<std::uint64_t>(kByteOrderMark.size(), file.size());
  return file.read(0, bytes, buffer) == kByteOrderMark ? kByteOrderMark.size() : 0;
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

// A row is one line, so the parser's own "line 1" would only mislead.
io::Value parse_line(std::string_view line, const std::string& where) {
  try {
    return io::parse_json(line, where);
  } catch (const MachineError&) {
    throw;
  } catch (const Error& e) {
    std::string message = e.what();
    const std::string parsers = where + ": line 1, column ";
    if (message.starts_with(parsers)) {
      message = where + ": column " + message.substr(parsers.size());
    }
    fail(message);
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
    const std::uint64_t start = begin_of_text(*file.bytes);
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
  constexpr std::uint64_t kParsed = 13;  // times its text, measured with short chats
  if (f.bytes->size() > most_unpacked_bytes() / kParsed)
    fail(cat(f.path, ": a JSON array is held in memory, and its ", io::human_bytes(f.bytes->size()),
             " would take some ", kParsed,
             " times as much, most of what is left; write one object ", "a line (JSON Lines)"));
  std::string buffer;
  const std::string_view text = f.bytes->read(start, f.bytes->size() - start, buffer);
  f.elements = io::parse_json(text, f.path);
  f.oversized = io::first_oversized_integer(text, rendered_columns());
  f.bytes.reset();
  for (std::size_t i = 0; i < f.elements.size(); ++i) {
    all_.push_back({file, static_cast<std::int64_t>(i) + 1, 0, 0});
  }
}

void Rows::check_integers(std::int64_t i) const {
  const Span& s = span(i);
  const File& f = files_[static_cast<std::size_t>(s.file)];
  std::string buffer;
  const std::string found =
      f.array ? f.oversized : io::first_oversized_integer(bytes_of(s, buffer), rendered_columns());
  refuse_oversized_integer(found, f.array ? f.path : where(i));
}

bool Rows::is_columnar(std::int64_t i) const {
  return files_[static_cast<std::size_t>(span(i).file)].path.ends_with(".parquet");
}

std::span<const std::string> Rows::unread_columns(std::int64_t i) const {
  const File& f = files_[static_cast<std::size_t>(span(i).file)];
  return f.array ? std::span<const std::string>() : f.bytes->unread_columns();
}

std::string Rows::where(std::int64_t i) const {
  const Span& s = span(i);
  const File& f = files_[static_cast<std::size_t>(s.file)];
  return f.array ? cat(f.path, ": row ", s.number) : cat(f.path, ":", s.number);
}

io::Value Rows::row(std::int64_t i) const {
  const Span& s = span(i);
  const File& f = files_[static_cast<std::size_t>(s.file)];
  std::string buffer;
  io::Value value = f.array ? f.elements.as_array()[static_cast<std::size_t>(s.number - 1)]
                            : parse_line(bytes_of(s, buffer), where(i));
  if (!value.is_object()) {
    fail(cat(where(i), ": a row must be an object, found ", value.kind_name()));
  }
  return value;
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
    const File& f = files_[static_cast<std::size_t>(s.file)];
    hash.add(s.number);
    if (f.array) {
      hash.add(io::to_json(f.elements.as_array()[static_cast<std::size_t>(s.number - 1)]));
    } else {
      hash.add(bytes_of(s, buffer));
    }
  }
}

}  // namespace glmtune::data
