#include "io/whole_note.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "base/cat.h"
#include "io/files.h"
#include "io/folder_files.h"

namespace glmtune::io {
namespace {

namespace fs = std::filesystem;

const char* name_of(RepoKind kind) {
  if (kind == RepoKind::kDataset) return "data";
  if (kind == RepoKind::kConfig) return "config";
  return kind == RepoKind::kModel ? "model" : "tokenizer";
}

// Those that the note of a whole data set names, where the folder lies in such a snapshot;
// otherwise, or where it names none of them, all.
std::vector<std::string> noted_files(const std::string& folder,
                                     const std::vector<std::string>& paths) {
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  if (error) return paths;
  // .../datasets--org--name/snapshots/COMMIT
  for (fs::path snapshot = real; snapshot.has_relative_path(); snapshot = snapshot.parent_path()) {
    const fs::path snapshots = snapshot.parent_path(), repo = snapshots.parent_path();
    if (snapshots.filename() != "snapshots" || !repo.filename().string().starts_with("datasets--"))
      continue;
    const std::set<std::string> noted = files_of_note(
        note_path(repo.parent_path(), repo, snapshot.filename().string(), RepoKind::kDataset),
        snapshot);
    const fs::path below = real.lexically_relative(snapshot);
    std::vector<std::string> out;
    std::copy_if(paths.begin(), paths.end(), std::back_inserter(out), [&](const std::string& path) {
      return noted.contains((below / path).lexically_normal().generic_string());
    });
    return out.empty() ? paths : out;
  }
  return paths;
}

}  // namespace

fs::path note_path(const fs::path& root, const fs::path& repo, const std::string& commit,
                   RepoKind kind) {
  return root / ".locks" / repo.filename() / cat(commit, ".", name_of(kind), ".whole");
}

std::set<std::string> files_of_note(const fs::path& note, const fs::path& snapshot) {
  std::error_code error;
  if (!fs::is_regular_file(note, error)) return {};
  std::istringstream lines(read_file(note.string()));
  std::set<std::string> out;
  for (std::string path; std::getline(lines, path); out.insert(path))
    if (!fs::exists(snapshot / path, error)) return {};
  return out;
}

OneForm form_to_read(const std::string& folder, const std::vector<std::string>& paths) {
  const std::vector<std::string> once = without_repeats(folder, paths);
  const std::vector<std::string> noted = noted_files(folder, once);
  const OneForm form = one_form(noted);
  const std::set<std::string> chosen(form.chosen.begin(), form.chosen.end());
  OneForm out;
  for (const std::string& path : once)
    (chosen.contains(path) ? out.chosen : out.others).push_back(path);
  return out;
}

}  // namespace glmtune::io
