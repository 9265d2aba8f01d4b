#pragma once
// NamePattern: a regular expression looked for in parameter names, as Python's re.search does.
#include <memory>
#include <string>
#include <string_view>

namespace glmtune::train {

class NamePattern {
 public:
  // Error where the text is no regular expression. What would need backtracking (look-around,
  // back references) is none: a search takes time in proportion to the name.
  explicit NamePattern(const std::string& pattern);
  NamePattern(NamePattern&&) noexcept;
  NamePattern& operator=(NamePattern&&) noexcept;
  ~NamePattern();

  bool found_in(std::string_view name) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace glmtune::train
