#pragma once
// A folder for one test's files, removed at the end.
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.h"

namespace glmtune {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "glmtune-test-XXXXXX").string();
    check(::mkdtemp(pattern.data()) != nullptr, "no temporary folder can be made");
    path_ = pattern;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace glmtune
