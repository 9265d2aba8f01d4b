#include "data/rows.h"

#include <algorithm>
#include <numeric>

#include "base/cat.h"
#include "base/error.h"
#include "data/shuffle.h"

namespace glmtune::data {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kBlank = " \t\r\n";

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

}  // namespace

Rows::Rows(const std::vector<std::string>& paths, const RowSelection& selection) {
  for (std::string& path : data_files(paths, name_of_split(selection.split))) {
    File file;
    file.bytes = std::make_unique<FileBytes>(path);
    file.path = std::move(path);
    const auto index = static_cast<std::int32_t>(files_.size());
    std::string_view text = file.bytes->text();
    if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    const std::size_t first = text.find_first_not_of(kBlank);
    file.array = first != std::string_view::npos && text[first] == '[';
    files_.push_back(std::move(file));
    if (files_.back().array) {
      index_array(index, text);
    } else {
      index_lines(index, text);
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
                          : cat(" in split ", selection.split, " of ", all_.size(), " rows")));
  }
}

void Rows::index_lines(std::int32_t file, std::string_view text) {
  const char* const start = files_[static_cast<std::size_t>(file)].bytes->text().data();
  std::int64_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.find_first_not_of(kBlank) == std::string_view::npos) continue;
    if (static_cast<std::int64_t>(line.size()) > kMaxLineBytes) {
      fail(cat(files_[static_cast<std::size_t>(file)].path, ":", number, ": a line of ",
               line.size(), " bytes; at most ", kMaxLineBytes, " are read"));
    }
    all_.push_back({file, number, line.data() - start, static_cast<std::int64_t>(line.size())});
  }
}

void Rows::index_array(std::int32_t file, std::string_view text) {
  File& f = files_[static_cast<std::size_t>(file)];
  f.elements = io::parse_json(text, f.path);
  for (std::size_t i = 0; i < f.elements.size(); ++i) {
    all_.push_back({file, static_cast<std::int64_t>(i) + 1, 0, 0});
  }
}

std::string Rows::where(std::int64_t i) const {
  const Span& s = span(i);
  const File& f = files_[static_cast<std::size_t>(s.file)];
  return f.array ? cat(f.path, ": row ", s.number) : cat(f.path, ":", s.number);
}

io::Value Rows::row(std::int64_t i) const {
  const Span& s = span(i);
  const File& f = files_[static_cast<std::size_t>(s.file)];
  io::Value value = f.array ? f.elements.as_array()[static_cast<std::size_t>(s.number - 1)]
                            : parse_line(f.bytes->text().substr(static_cast<std::size_t>(s.offset),
                                                                static_cast<std::size_t>(s.bytes)),
                                         where(i));
  if (!value.is_object()) {
    fail(cat(where(i), ": a row must be an object, found ", value.kind_name()));
  }
  return value;
}

void Rows::add_to(ContentHash& hash) const {
  for (std::int64_t i = 0; i < size(); ++i) {
    const Span& s = span(i);
    const File& f = files_[static_cast<std::size_t>(s.file)];
    hash.add(s.number);
    if (f.array) {
      hash.add(io::to_json(f.elements.as_array()[static_cast<std::size_t>(s.number - 1)]));
    } else {
      hash.add(f.bytes->text().substr(static_cast<std::size_t>(s.offset),
                                      static_cast<std::size_t>(s.bytes)));
    }
  }
}

}  // namespace glmtune::data
