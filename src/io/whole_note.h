#pragma once
// The note that a snapshot of the hub's cache was found whole (WholeSnapshot of hub_selection.h):
// ".locks/datasets--org--name/COMMIT.data.whole", a path a line.
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "io/hub_cache.h"
#include "io/row_files.h"

namespace glmtune::io {

// root: the cache's; repo: its folder of the repository.
std::filesystem::path note_path(const std::filesystem::path& root,
                                const std::filesystem::path& repo, const std::string& commit,
                                RepoKind kind);

// The files of a note, where all of them are still in the snapshot; otherwise none.
std::set<std::string> files_of_note(const std::filesystem::path& note,
                                    const std::filesystem::path& snapshot);

// Of files of rows below `folder`, as files_below() of folder_files.h has them, those that are
// read: each once (without_repeats), in one form (one_form). In a snapshot that was noted whole the
// noted ones decide: what a client has added since, a part of another form, say, is left out.
OneForm form_to_read(const std::string& folder, const std::vector<std::string>& paths);

}  // namespace glmtune::io
