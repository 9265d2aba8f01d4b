#pragma once
// Where the elements of a JSON array lie in its file, found by their brackets and strings alone.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace glmtune::data {

struct ArrayElement {
  std::int64_t offset = 0;  // of its first byte in the file
  std::int64_t bytes = 0;
  std::int64_t line = 1;  // where it begins, from 1; columns are characters
  std::int64_t column = 1;
};

// Takes a file's bytes piece by piece. Elements are handed out in order and not looked into: they
// may be no JSON. Error, with line and column, where something else than elements and the commas
// between them stands in the array, or something behind it.
class ArrayScanner {
 public:
  using Take = std::function<void(const ArrayElement&)>;

  // path: for messages; offset: of the first byte that will be taken.
  ArrayScanner(std::string path, std::uint64_t offset, Take take);

  void scan(std::string_view piece);
  bool has_ended() const { return state_ == State::kEnd; }
  // Whether the text so far ends inside an element, and that element; its size is not known yet.
  bool is_inside() const { return state_ == State::kInside; }
  const ArrayElement& element() const { return element_; }
  // Error unless the array has ended.
  void finish() const;

 private:
  enum class State : std::uint8_t { kStart, kFirst, kNext, kInside, kBehind, kEnd };

  void character(char c);
  void inside(char c);
  void begin(char c);
  void end();
  [[noreturn]] void unexpected(const char* expected, const std::string& found) const;

  std::string path_;
  Take take_;
  State state_ = State::kStart;
  ArrayElement here_;  // offset, line and column of the character that comes next
  ArrayElement element_;
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

}  // namespace glmtune::data
