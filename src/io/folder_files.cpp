#include "io/folder_files.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/cat.h"
#include "io/files.h"
#include "io/row_files.h"

namespace glmtune::io {
namespace {

namespace fs = std::filesystem;

class Lister {
 public:
  explicit Lister(Hidden hidden) : hidden_(hidden) {}

  // below: the path from the first folder on, "" or ending in '/'.
  void list(const fs::path& folder, const std::string& below) {
    std::error_code error;
    const fs::path real = fs::canonical(folder, error);
    if (error) fail_errno(folder.string(), "listing the folder", error.value());
    if (std::find(above_.begin(), above_.end(), real) != above_.end()) return;
    above_.push_back(real);
    for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator();
         at.increment(error)) {
      const std::string path = below + at->path().filename().string();
      std::error_code unknown;
      const bool is_folder = at->is_directory(unknown);
      if (hidden_ == Hidden::kSkip && is_hidden(is_folder ? path + "/" : path)) continue;
      if (is_folder)
        list(at->path(), path + "/");
      else
        found.push_back(path);
    }
    if (error) fail_errno(folder.string(), "listing the folder", error.value());
    above_.pop_back();
  }

  std::vector<std::string> found;

 private:
  Hidden hidden_;
  std::vector<fs::path> above_;  // without links
};

}  // namespace

std::vector<std::string> files_below(const std::string& folder, Hidden hidden) {
  Lister lister(hidden);
  lister.list(folder, "");
  std::sort(lister.found.begin(), lister.found.end());
  return std::move(lister.found);
}

std::vector<std::string> without_repeats(const std::string& folder,
                                         const std::vector<std::string>& paths) {
  std::vector<std::string> out;
  std::set<fs::path> seen;
  for (const std::string& path : paths) {
    const fs::path file = fs::path(folder) / path;
    std::error_code error;
    const fs::path real = fs::canonical(file.parent_path(), error) / file.filename();
    if (error || seen.insert(real).second) out.push_back(path);
  }
  return out;
}

std::string unreachable(const std::string& path) {
  std::error_code error;
  (void)fs::status(path, error);
  if (error == std::errc::permission_denied)
    return cat(path, ": ", error.message(), "; check the permissions of its folders");
  for (fs::path part = path; !part.empty(); part = part.parent_path()) {
    std::error_code unknown;
    if (fs::is_symlink(fs::symlink_status(part, unknown)) && !fs::exists(part, unknown))
      return cat(part.string(), ": ", kLinkToNothing);
    if (part == part.parent_path()) break;
  }
  return cat(path, ": no such file or folder");
}

std::string without_last_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace glmtune::io
