#pragma once
// What lies in a folder and the folders below it.
#include <cstdint>
#include <string>
#include <vector>

namespace glmtune::io {

enum class Hidden : std::uint8_t { kSkip, kList };  // is_hidden() of row_files.h

// Paths with '/' from the folder on, sorted, of everything that is no folder: also links that lead
// nowhere. Links to folders are followed, but not back up. Error where a folder cannot be listed.
std::vector<std::string> files_below(const std::string& folder, Hidden hidden = Hidden::kSkip);

// Of files_below() of a folder: without those that an earlier one is, by another link to a folder.
// Links to files count as files: the hub's cache has one blob for files that are equal.
std::vector<std::string> without_repeats(const std::string& folder,
                                         const std::vector<std::string>& paths);

// What to say of a link that leads nowhere.
inline constexpr const char* kLinkToNothing = "a link that leads nowhere; mend it or remove it";

// Of a path that cannot be reached, which and why: "a/b: no such file or folder", a link on the way
// that leads nowhere, or the system's reason, such as a folder that may not be entered.
std::string unreachable(const std::string& path);

// A path without the '/' at its end, which says no more than that it is a folder.
std::string without_last_slash(std::string path);

}  // namespace glmtune::io
