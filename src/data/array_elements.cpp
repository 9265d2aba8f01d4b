#include "data/array_elements.h"

#include <utility>

#include "base/cat.h"
#include "base/error.h"

namespace glmtune::data {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

std::string spelled(char c) {
  const int byte = static_cast<unsigned char>(c);
  return byte > ' ' && byte < 0x7f ? cat("'", c, "'") : cat("byte ", byte);
}

}  // namespace

ArrayScanner::ArrayScanner(std::string path, std::uint64_t offset, Take take)
    : path_(std::move(path)), take_(std::move(take)) {
  here_.offset = static_cast<std::int64_t>(offset);
}

void ArrayScanner::scan(std::string_view piece) {
  for (const char c : piece) {
    character(c);
    ++here_.offset;
    if (c == '\n') {
      ++here_.line;
      here_.column = 1;
    } else if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U) {
      ++here_.column;
    }
  }
}

void ArrayScanner::character(char c) {
  if (state_ == State::kInside) {
    inside(c);
  } else if (is_blank(c)) {
    return;
  } else if (state_ == State::kStart) {
    if (c != '[') unexpected("'['", spelled(c));
    state_ = State::kFirst;
  } else if (state_ == State::kFirst && c == ']') {
    state_ = State::kEnd;
  } else if (state_ == State::kFirst || state_ == State::kNext) {
    begin(c);
  } else if (state_ == State::kBehind) {
    if (c != ',' && c != ']') unexpected("',' or ']' in an array", spelled(c));
    state_ = c == ',' ? State::kNext : State::kEnd;
  } else {
    unexpected("nothing behind the array (a file is one JSON array of rows, or one row a line)",
               spelled(c));
  }
}

void ArrayScanner::begin(char c) {
  if (c == ',' || c == ']' || c == '}') unexpected("a value", spelled(c));
  state_ = State::kInside;
  element_ = here_;
  depth_ = 0;
  inside(c);
}

void ArrayScanner::inside(char c) {
  if (in_string_) {
    const bool ends = c == '"' && !escaped_;
    escaped_ = c == '\\' && !escaped_;
    if (!ends) return;
    in_string_ = false;
  } else if (c == '"') {
    in_string_ = true;
    return;
  } else if (c == '{' || c == '[') {
    ++depth_;
    return;
  } else if (depth_ == 0) {
    // A number or a word, which ends before what follows it.
    if (!is_blank(c) && c != ',' && c != ']') return;
    end();
    character(c);
    return;
  } else if (c == '}' || c == ']') {
    --depth_;
  } else {
    return;
  }
  if (depth_ > 0) return;
  ++here_.offset;
  end();
  --here_.offset;
}

void ArrayScanner::end() {
  state_ = State::kBehind;
  element_.bytes = here_.offset - element_.offset;
  take_(element_);
}

void ArrayScanner::finish() const {
  if (state_ != State::kEnd)
    unexpected(state_ == State::kFirst || state_ == State::kNext ? "a value"
               : state_ == State::kInside                        ? "the end of an element"
                                                                 : "',' or ']' in an array",
               "the end of the file");
}

void ArrayScanner::unexpected(const char* expected, const std::string& found) const {
  fail(cat(path_, ": line ", here_.line, ", column ", here_.column, ": expected ", expected,
           ", found ", found));
}

}  // namespace glmtune::data
