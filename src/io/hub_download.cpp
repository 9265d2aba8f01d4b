#include "io/hub_download.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/cat.h"
#include "base/error.h"
#include "io/folder_files.h"
#include "io/hub_selection.h"
#include "io/row_files.h"
#include "io/snapshot_fetch.h"

namespace glmtune::io {
namespace {

namespace fs = std::filesystem;

// Of a snapshot that nobody compares with the hub: what may be missing of it; "" where nothing
// speaks for that.
std::string doubt(const ResolvedRepo& local, RepoKind kind) {
  if (kind == RepoKind::kDataset) return "files of rows";
  if (kind == RepoKind::kConfig) return "";
  for (const char* name : {"chat_template.jinja", "generation_config.json"}) {
    if (!fs::exists(fs::path(local.folder) / name)) return name;
  }
  return "";
}

ResolvedRepo resolve_offline(const std::string& id, RepoKind kind, const HubCache& hub,
                             const FetchOptions& options, const std::string& revision) {
  ResolvedRepo local = resolve_repo(id, kind, hub, revision);
  if (!options.notice) return local;
  const std::string missing = doubt(local, kind);
  if (!local.suspected.empty()) {
    options.notice(cat(id, ": ", local.folder, " seems to lack ", local.suspected,
                       "; offline, so the hub is not asked"));
  } else if (!missing.empty() && !WholeSnapshot(hub, kind, id, local).is_noted()) {
    options.notice(
        cat(id, ": offline, so the hub is not asked whether ", local.folder, " lacks ", missing));
  }
  return local;
}

// Whether a snapshot that lacks these files is only a part: it lacks rows or weights.
bool is_part(const std::vector<HubFile>& missing, RepoKind kind) {
  return std::any_of(missing.begin(), missing.end(), [&](const HubFile& f) {
    return kind == RepoKind::kDataset ? is_row_file(fs::path(f.path).filename().string())
                                      : f.path.find(".safetensors") != std::string::npos;
  });
}

// A snapshot of the cache, made whole where the hub can be asked what belongs to it.
ResolvedRepo completed(const std::string& id, RepoKind kind, const HubCache& hub,
                       const FetchOptions& options, const ResolvedRepo& local) {
  if (kind == RepoKind::kConfig || WholeSnapshot(hub, kind, id, local).is_noted()) return local;
  const auto notice = [&](const std::string& text) {
    if (options.notice) options.notice(cat(id, ": ", text));
  };
  SnapshotFetch fetch(hub, kind, id, options);
  std::vector<HubFile> missing;
  const auto unknown = [&](const char* why) {
    notice(cat("whether ", local.folder, " has all files of the hub is not known (", why, ")",
               local.suspected.empty() ? "" : cat("; it seems to lack ", local.suspected),
               "; HF_HUB_OFFLINE=1 does not ask"));
    return local;
  };
  try {
    missing = fetch.missing(local);
  } catch (const ConnectionError& e) {
    return unknown(e.what());
  } catch (const MachineError&) {
    throw;
  } catch (const Error& e) {
    return unknown(e.what());
  }
  if (missing.empty()) return local;
  const std::string lacks =
      cat(local.folder, " lacks ",
          missing.size() > 1 ? cat(missing.size(), " files that the hub has, ") : "",
          missing.front().path, missing.size() > 1 ? " first" : ", which the hub has");
  notice(cat(lacks, "; fetched now (HF_HUB_OFFLINE=1 takes what is there)"));
  // Without a card or a template the rows and the weights are still all there.
  const auto without = [&](const char* why) {
    notice(cat(lacks, " and which cannot be fetched (", why, "); this run does without",
               kind == RepoKind::kDataset
                   ? ": a card that says which files belong to which subset and split is not heeded"
                   : ""));
    return local;
  };
  try {
    return fetch.run(local.commit);
  } catch (const ConnectionError& e) {
    if (is_part(missing, kind)) throw;
    return without(e.what());
  } catch (const Error& e) {
    if (is_part(missing, kind)) throw;
    return without(e.what());
  }
}

// The commit that the cache knows a branch or tag as. Where the hub has lost it (its history was
// rewritten, the repository made anew) and nothing of it is here, the newest serves.
ResolvedRepo fetch_known_commit(const std::string& id, RepoKind kind, const HubCache& hub,
                                const FetchOptions& options, const std::string& revision,
                                const std::string& commit) {
  const std::string fetch_newest = cat("`", download_command(id, kind, revision), "`");
  const auto notice = [&](const std::string& text) {
    if (options.notice)
      options.notice(cat(id, ": the cache knows ", revision, " as commit ", commit, text));
  };
  notice(cat(", which is not whole; the hub is asked for that commit (", fetch_newest,
             " fetches the newest)"));
  try {
    return SnapshotFetch(hub, kind, id, options).run(commit);
  } catch (const HubNoRevision& e) {
    const fs::path repo = repo_folder(hub, id, kind), snapshot = repo / "snapshots" / commit;
    std::error_code error;
    if (fs::exists(snapshot, error) && !files_below(snapshot.string(), Hidden::kList).empty())
      fail(cat(e.what(), ", which is what ", (repo / "refs" / revision).string(),
               " says and of which ", snapshot.string(), " has a part; for the newest, ",
               fetch_newest, " or remove that reference"));
  }
  notice(", which the hub no longer has; nothing of it is here, so the newest is fetched");
  return SnapshotFetch(hub, kind, id, options).run(revision);
}

}  // namespace

ResolvedRepo fetch_repo(const std::string& path_or_id, RepoKind kind, const HubCache& hub,
                        const FetchOptions& options, const std::string& revision) {
  std::error_code error;
  if (fs::exists(path_or_id, error) || !is_hub_id(path_or_id)) {
    return resolve_repo(path_or_id, kind, hub, revision);
  }
  if (hub.offline) return resolve_offline(path_or_id, kind, hub, options, revision);
  std::optional<ResolvedRepo> local;
  try {
    local = resolve_repo(path_or_id, kind, hub, revision);
  } catch (const MachineError&) {
    throw;
  } catch (const Error&) {  // a miss; the hub may have it
  }
  // Part of a commit is completed from that commit: a run that resumes wants no other.
  const auto commit = local ? std::nullopt : cached_commit(path_or_id, kind, hub, revision);
  try {
    if (local) return completed(path_or_id, kind, hub, options, *local);
    if (commit && *commit != revision)
      return fetch_known_commit(path_or_id, kind, hub, options, revision, *commit);
    return SnapshotFetch(hub, kind, path_or_id, options).run(revision);
  } catch (const ConnectionError& e) {
    fail_machine(
        cat(path_or_id,
            ": no such folder here; as a hub id, not, or not whole, in the cache (searched ",
            repo_folder(hub, path_or_id, kind), ") and cannot be fetched: ", e.what(),
            "; check the network and HF_ENDPOINT, or give the path of a folder"));
  }
}

}  // namespace glmtune::io
