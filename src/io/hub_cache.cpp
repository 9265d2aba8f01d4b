#include "io/hub_cache.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <vector>

#include "base/cat.h"
#include "base/error.h"
#include "io/exported_folder.h"
#include "io/files.h"
#include "io/hub_selection.h"
#include "io/json.h"
#include "io/row_files.h"
#include "io/untrusted.h"

namespace glmtune::io {
namespace {

namespace fs = std::filesystem;

bool is_true(const std::optional<std::string>& value) {
  if (!value) return false;
  std::string upper = *value;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return upper == "1" || upper == "ON" || upper == "YES" || upper == "TRUE";
}

// The user's folder where HOME does not say it, as for a service.
std::string home_of_account() {
  const passwd* account = ::getpwuid(::getuid());
  return account != nullptr && account->pw_dir != nullptr ? account->pw_dir : "";
}

// The first word of a file with one line.
std::string first_line(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
  return std::string(text.substr(begin, text.find_first_of(kSpace, begin) - begin));
}

// What is not found is as the client leaves it: the text unchanged.
std::string expand_user(const std::string& path, const Environment& environment) {
  if (!path.starts_with('~')) return path;
  const std::size_t end = std::min(path.find('/'), path.size());
  std::string home;
  if (end == 1) {
    home = environment("HOME").value_or("");
    if (home.empty()) home = home_of_account();
  } else if (const passwd* account = ::getpwnam(path.substr(1, end - 1).c_str())) {
    home = account->pw_dir == nullptr ? "" : account->pw_dir;
  }
  if (home.empty()) return path;
  while (home.ends_with('/')) home.pop_back();
  const std::string out = home + path.substr(end);
  return out.empty() ? "/" : out;
}

// $NAME and ${NAME}, once; variables that are not set stay as they are.
std::string expand_variables(const std::string& path, const Environment& environment) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  std::string out;
  for (std::size_t at = 0; at < path.size();) {
    std::size_t end = at + 1;
    std::string name;
    if (path[at] == '$' && end < path.size() && path[end] == '{') {
      const std::size_t close = path.find('}', end);
      if (close != std::string::npos) {
        name = path.substr(end + 1, close - end - 1);
        end = close + 1;
      }
    } else if (path[at] == '$') {
      while (end < path.size() && is_word(path[end])) ++end;
      name = path.substr(at + 1, end - at - 1);
    }
    const auto value = name.empty() ? std::nullopt : environment(name.c_str());
    out += value ? *value : path.substr(at, end - at);
    at = end;
  }
  return out;
}

std::string what_to_do(const std::string& id, RepoKind kind, const HubCache& cache,
                       const std::string& revision) {
  return cat(
      cache.offline ? "; HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set, so nothing is fetched" : "",
      "; fetch it first (`", download_command(id, kind, revision),
      "`), or give the path of a folder");
}

// The commit of a branch or tag; revisions with a slash lie in subfolders of refs.
std::string commit_of(const fs::path& repo, const std::string& revision, const std::string& id,
                      RepoKind kind, const HubCache& cache) {
  if (is_commit(revision)) return revision;
  const bool safe =
      !revision.empty() && revision.find("..") == std::string::npos && revision.front() != '/';
  const fs::path ref = repo / "refs" / revision;
  if (!safe || !fs::is_regular_file(ref)) {
    std::string have;
    if (fs::is_directory(repo / "refs")) {
      for (const auto& entry : fs::recursive_directory_iterator(repo / "refs")) {
        if (!entry.is_regular_file()) continue;
        have += cat(have.empty() ? "" : ", ", fs::relative(entry.path(), repo / "refs").string());
      }
    }
    fail(cat(id, ": revision \"", revision, "\" is not in ", repo.string(), " (it has: ",
             have.empty() ? "none" : have, ")", what_to_do(id, kind, cache, revision)));
  }
  std::string commit = read_file(ref.string());
  commit = first_line(commit);
  if (!is_commit(commit)) {
    fail(cat(ref.string(), ": expected a commit of 40 hexadecimal digits, found \"",
             commit.substr(0, 60), "\""));
  }
  return commit;
}

// What a data set's snapshot lacks: links to blobs that are not there are certain; that files count
// others which are not there, or that a download was broken off, is only a hint, as the hub's own
// list may be no more and the download of something else.
struct MissingRows {
  std::vector<std::string> certain;
  std::string suspected;
};

std::string and_more(std::size_t files) {
  if (files == 0) return "";
  return cat(" and ", files, " more ", files == 1 ? "file" : "files");
}

// Files that those of the same name but the number count with themselves, from 0 or from 1.
std::string uncounted(const std::map<std::string, ShardName>& kinds,
                      const std::map<std::string, std::set<int>>& numbers) {
  std::string first;
  std::size_t more = 0;
  for (const auto& [kind, shard] : kinds) {
    const std::set<int>& have = numbers.at(kind);
    const int begin = have.contains(shard.count) ? 1 : 0;
    const auto wanted = static_cast<std::size_t>(std::max(shard.count, 0));
    int absent = begin;
    while (have.contains(absent)) ++absent;
    if (absent >= begin + shard.count) continue;
    more += wanted - std::min(wanted, have.size());
    if (first.empty()) first = shard.path(absent);
  }
  return printable(first) + and_more(more - std::min<std::size_t>(more, 1));
}

MissingRows missing_rows(const fs::path& snapshot) {
  MissingRows missing;
  std::vector<std::string> rows;
  for (const auto& entry : fs::recursive_directory_iterator(snapshot)) {
    const std::string path = entry.path().lexically_relative(snapshot).generic_string();
    if (entry.is_directory() || is_hidden(path) || !is_row_file(entry.path().filename().string()))
      continue;
    (entry.exists() ? rows : missing.certain).push_back(path);
  }
  std::sort(missing.certain.begin(), missing.certain.end());
  if (!missing.certain.empty()) return missing;
  if (rows.empty()) return {{"files of rows (.parquet, .jsonl, .json)"}, ""};
  bool is_counted = true;
  std::map<std::string, ShardName> kinds;  // by the path of number 0
  std::map<std::string, std::set<int>> numbers;
  for (const std::string& path : one_form(rows).chosen) {  // which is read
    const auto name = shard_name(path);
    is_counted = is_counted && name;
    if (!name) continue;
    kinds.emplace(name->path(0), *name);
    numbers[name->path(0)].insert(name->number);
  }
  missing.suspected = uncounted(kinds, numbers);
  const fs::path blobs = snapshot.parent_path().parent_path() / "blobs";
  if (!missing.suspected.empty() || is_counted || !fs::is_directory(blobs)) return missing;
  for (const auto& entry : fs::directory_iterator(blobs)) {
    if (entry.path().extension() != ".incomplete") continue;
    missing.suspected = cat("a file whose download was broken off or is under way (",
                            printable(entry.path().string()), ")");
    break;
  }
  return missing;
}

// Files that a model's snapshot lacks. A link whose blob is gone counts as missing.
std::vector<std::string> missing_files(const fs::path& snapshot, RepoKind kind) {
  std::vector<std::string> missing;
  if (kind == RepoKind::kTokenizer) {
    if (!fs::exists(snapshot / "tokenizer.json")) missing.emplace_back("tokenizer.json");
    return missing;
  }
  if (!fs::exists(snapshot / "config.json")) missing.emplace_back("config.json");
  if (kind == RepoKind::kConfig) return missing;
  const fs::path index = snapshot / "model.safetensors.index.json";
  if (!fs::exists(index)) {
    if (!fs::exists(snapshot / "model.safetensors")) {
      missing.emplace_back("model.safetensors (or model.safetensors.index.json)");
    }
    return missing;
  }
  const Value value = read_json_file(index.string());
  const Value* map = value.is_object() ? value.find("weight_map") : nullptr;
  if (map == nullptr || !map->is_object()) {
    fail(cat(index.string(), ": has no object `weight_map`"));
  }
  std::set<std::string> shards;
  for (const auto& [tensor, file] : map->as_object()) {
    if (file.is_string()) shards.insert(file.as_string());
  }
  for (const std::string& shard : shards) {
    if (!fs::exists(snapshot / shard)) missing.push_back(shard);
  }
  return missing;
}

}  // namespace

HubCache hub_cache(const Environment& environment) {
  HubCache cache;
  cache.offline =
      is_true(environment("HF_HUB_OFFLINE")) || is_true(environment("TRANSFORMERS_OFFLINE"));
  const auto set = [&](const char* name) {
    auto value = environment(name);
    return value && !value->empty() ? value : std::nullopt;
  };
  const auto expand = [&](const std::string& path) {
    return expand_variables(expand_user(path, environment), environment);
  };
  const std::string home =
      expand(set("HF_HOME").value_or(set("XDG_CACHE_HOME").value_or("~/.cache") + "/huggingface"));
  cache.root =
      expand(set("HF_HUB_CACHE").value_or(set("HUGGINGFACE_HUB_CACHE").value_or(home + "/hub")));
  if (const auto endpoint = set("HF_ENDPOINT")) cache.endpoint = *endpoint;
  while (cache.endpoint.ends_with('/')) cache.endpoint.pop_back();
  if (is_true(environment("HF_HUB_DISABLE_IMPLICIT_TOKEN"))) return cache;
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (!cache.token.empty()) break;
    cache.token = first_line(environment(name).value_or(""));
    cache.token_from = name;
  }
  if (!cache.token.empty()) return cache;
  const std::string file = expand(set("HF_TOKEN_PATH").value_or(home + "/token"));
  std::error_code error;
  if (fs::is_regular_file(file, error)) cache.token = first_line(read_file(file));
  cache.token_from = cache.token.empty() ? "" : file;
  return cache;
}

std::string download_command(const std::string& id, RepoKind kind, const std::string& revision) {
  return cat("hf download ", kind == RepoKind::kDataset ? "--repo-type dataset " : "", id,
             revision == "main" ? "" : " --revision " + revision);
}

bool is_commit(std::string_view text) {
  return text.size() == 40 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string repo_folder(const HubCache& cache, const std::string& id, RepoKind kind) {
  std::string name = kind == RepoKind::kDataset ? "datasets--" : "models--";
  for (const char c : id) name += c == '/' ? std::string("--") : std::string(1, c);
  return (fs::path(cache.root) / name).string();
}

bool is_hub_id(std::string_view text) {
  const auto part = [](std::string_view p) {
    return !p.empty() && p.size() <= 96 && p.front() != '.' && p.front() != '-' &&
           p.find("--") == std::string_view::npos && p.find("..") == std::string_view::npos &&
           std::all_of(p.begin(), p.end(), [](char c) {
             return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' ||
                    c == '-';
           });
  };
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return part(text);
  return part(text.substr(0, slash)) && part(text.substr(slash + 1));
}

std::optional<std::string> cached_commit(const std::string& id, RepoKind kind,
                                         const HubCache& cache, const std::string& revision) {
  try {
    return commit_of(repo_folder(cache, id, kind), revision, id, kind, cache);
  } catch (const MachineError&) {
    throw;
  } catch (const Error&) {
    return std::nullopt;
  }
}

ResolvedRepo resolve_repo(const std::string& path_or_id, RepoKind kind, const HubCache& cache,
                          const std::string& revision) {
  if (fs::exists(path_or_id)) {
    const bool needs_config = kind == RepoKind::kModel || kind == RepoKind::kConfig;
    if (needs_config && !fs::exists(fs::path(path_or_id) / "config.json")) {
      fail(cat(path_or_id, ": holds no config.json; expected a Hugging Face checkpoint folder",
               exported_folder_hint(path_or_id)));
    }
    return {.folder = path_or_id};
  }
  if (!is_hub_id(path_or_id)) {
    fail(cat(path_or_id, ": does not exist, and is not a hub id (ORG/NAME)"));
  }
  const fs::path repo = repo_folder(cache, path_or_id, kind);
  if (!fs::is_directory(repo)) {
    fail(cat(path_or_id, ": neither a folder here nor in the hub cache (searched ", repo.string(),
             ")", what_to_do(path_or_id, kind, cache, revision)));
  }
  const std::string commit = commit_of(repo, revision, path_or_id, kind, cache);
  const fs::path snapshot = repo / "snapshots" / commit;
  if (!fs::is_directory(snapshot)) {
    fail(cat(path_or_id, ": the cache has no snapshot ", snapshot.string(),
             what_to_do(path_or_id, kind, cache, revision)));
  }
  ResolvedRepo found{snapshot.string(), commit};
  std::vector<std::string> missing;
  if (kind != RepoKind::kDataset) {
    missing = missing_files(snapshot, kind);
  } else if (!WholeSnapshot(cache, kind, path_or_id, found).is_noted()) {
    MissingRows rows = missing_rows(snapshot);
    missing = std::move(rows.certain);
    found.suspected = std::move(rows.suspected);
  }
  if (!missing.empty()) {
    fail(cat(path_or_id, ": the snapshot ", snapshot.string(), " lacks ",
             printable(missing.front()), and_more(missing.size() - 1),
             what_to_do(path_or_id, kind, cache, revision)));
  }
  return found;
}

}  // namespace glmtune::io
