#include "io/hub_cache.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <vector>

#include "base/cat.h"
#include "base/error.h"
#include "io/files.h"
#include "io/json.h"

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

bool is_commit(std::string_view text) {
  return text.size() == 40 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string folder_name(const std::string& id, RepoKind kind) {
  std::string name = kind == RepoKind::kModel ? "models--" : "datasets--";
  for (const char c : id) name += c == '/' ? std::string("--") : std::string(1, c);
  return name;
}

std::string what_to_do(const std::string& id, RepoKind kind) {
  return cat("; fetch it first (`hf download ",
             kind == RepoKind::kDataset ? "--repo-type dataset " : "", id,
             "`), or give the path of a folder");
}

// The commit of a branch or tag; revisions with a slash lie in subfolders of refs.
std::string commit_of(const fs::path& repo, const std::string& revision, const std::string& id,
                      RepoKind kind) {
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
    fail(cat(id, ": revision \"", revision, "\" is not in ", repo.string(),
             " (it has: ", have.empty() ? "none" : have, ")", what_to_do(id, kind)));
  }
  std::string commit = read_file(ref.string());
  while (!commit.empty() && std::isspace(static_cast<unsigned char>(commit.back())) != 0) {
    commit.pop_back();
  }
  if (!is_commit(commit)) {
    fail(cat(ref.string(), ": expected a commit of 40 hexadecimal digits, found \"",
             commit.substr(0, 60), "\""));
  }
  return commit;
}

// Files that a model's snapshot lacks. A link whose blob is gone counts as missing.
std::vector<std::string> missing_files(const fs::path& snapshot) {
  std::vector<std::string> missing;
  if (!fs::exists(snapshot / "config.json")) missing.emplace_back("config.json");
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
  if (const auto v = set("HF_HUB_CACHE")) {
    cache.root = *v;
  } else if (const auto old = set("HUGGINGFACE_HUB_CACHE")) {
    cache.root = *old;
  } else if (const auto home = set("HF_HOME")) {
    cache.root = *home + "/hub";
  } else if (const auto xdg = set("XDG_CACHE_HOME")) {
    cache.root = *xdg + "/huggingface/hub";
  } else {
    cache.root = set("HOME").value_or("") + "/.cache/huggingface/hub";
  }
  if (cache.root.starts_with("~/")) cache.root = set("HOME").value_or("") + cache.root.substr(1);
  return cache;
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

ResolvedRepo resolve_repo(const std::string& path_or_id, RepoKind kind, const HubCache& cache,
                          const std::string& revision) {
  if (fs::exists(path_or_id)) {
    if (kind == RepoKind::kModel && !fs::exists(fs::path(path_or_id) / "config.json")) {
      fail(cat(path_or_id, ": holds no config.json; expected a Hugging Face checkpoint folder"));
    }
    return {path_or_id, ""};
  }
  if (!is_hub_id(path_or_id)) {
    fail(cat(path_or_id, ": does not exist, and is not a hub id (ORG/NAME)"));
  }
  const fs::path repo = fs::path(cache.root) / folder_name(path_or_id, kind);
  if (!fs::is_directory(repo)) {
    fail(cat(path_or_id, ": neither a folder here nor in the hub cache (searched ", repo.string(),
             ")", what_to_do(path_or_id, kind)));
  }
  const std::string commit = commit_of(repo, revision, path_or_id, kind);
  const fs::path snapshot = repo / "snapshots" / commit;
  if (!fs::is_directory(snapshot)) {
    fail(cat(path_or_id, ": the cache has no snapshot ", snapshot.string(),
             what_to_do(path_or_id, kind)));
  }
  if (kind == RepoKind::kModel) {
    if (const auto missing = missing_files(snapshot); !missing.empty()) {
      fail(cat(path_or_id, ": the snapshot ", snapshot.string(), " lacks ", missing.front(),
               missing.size() > 1 ? cat(" and ", missing.size() - 1, " more files") : "",
               what_to_do(path_or_id, kind)));
    }
  }
  return {snapshot.string(), commit};
}

}  // namespace glmtune::io
