#include "io/hub_download.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "base/cat.h"
#include "base/error.h"
#include "io/blob_file.h"
#include "io/file_lock.h"
#include "io/files.h"
#include "io/folder_files.h"
#include "io/hub_selection.h"
#include "io/row_files.h"

namespace glmtune::io {
namespace {

namespace fs = std::filesystem;

constexpr auto kProgressEvery = std::chrono::milliseconds(200);
constexpr auto kLockEvery = std::chrono::milliseconds(100);
// For the question whether a snapshot that is there is whole, which no run should wait for long.
constexpr int kQuickConnectSeconds = 5;

fs::path make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    fail(cat(folder.string(), ": the cache's folder cannot be made: ", error.message(),
             "; choose one that can be written with HF_HUB_CACHE"));
  }
  return folder;
}

class Fetch {
 public:
  Fetch(const HubCache& hub, RepoKind kind, std::string id, const FetchOptions& options)
      : hub_(hub), kind_(kind), id_(std::move(id)), options_(options) {}

  ResolvedRepo run(const std::string& revision) {
    if (revision.empty() || revision.front() == '/' || revision.find("..") != std::string::npos) {
      fail(cat(id_, ": \"", revision, "\" is no branch, tag or commit"));
    }
    const HubRevision found = new_client().revision(revision);
    commit_ = found.commit;
    repo_ = repo_folder(hub_, id_, kind_);
    snapshot_ = make_folder(repo_ / "snapshots" / commit_);
    blobs_ = make_folder(repo_ / "blobs");
    locks_ = make_folder(fs::path(hub_.root) / ".locks" / repo_.filename());
    std::vector<HubFile> files = files_beside_weights(found.files, kind_, snapshot_.string());
    if (files.empty() && kind_ == RepoKind::kDataset) {
      lacks("has no file of rows (.parquet, .jsonl or .json)");
    }
    fetch_all(files);
    if (kind_ == RepoKind::kModel) {
      const std::vector<HubFile> shards = weights(found.files);
      fetch_all(shards);
      files.insert(files.end(), shards.begin(), shards.end());
    }
    if (revision != commit_) {
      const fs::path ref = repo_ / "refs" / revision;
      make_folder(ref.parent_path());
      write_file(ref.string(), commit_);
    }
    ResolvedRepo out{snapshot_.string(), commit_};
    WholeSnapshot(hub_, kind_, id_, out).note(files);
    return out;
  }

  // What a snapshot lacks of the files that the hub lists of its commit; asks once. None: it is
  // whole, which is noted.
  std::vector<HubFile> missing(const ResolvedRepo& local) {
    commit_ = local.commit;
    snapshot_ = local.folder;
    HttpSettings http = options_.http;
    http.connect_seconds = std::min(http.connect_seconds, kQuickConnectSeconds);
    HubClient client(hub_, kind_, id_, {.tries = 1}, http);
    const std::vector<HubFile> listed = client.revision(commit_).files;
    std::vector<HubFile> files = files_beside_weights(listed, kind_, snapshot_.string());
    if (kind_ == RepoKind::kModel) {
      const std::vector<HubFile> shards = weights(listed);
      files.insert(files.end(), shards.begin(), shards.end());
    }
    std::vector<HubFile> out;
    std::copy_if(files.begin(), files.end(), std::back_inserter(out),
                 [&](const HubFile& f) { return !fs::exists(snapshot_ / f.path); });
    if (out.empty()) WholeSnapshot(hub_, kind_, id_, local).note(files);
    return out;
  }

 private:
  [[noreturn]] void lacks(const std::string& what) const {
    fail(cat(id_, ": ", hub_.endpoint, " ", what, " in it (commit ", commit_, ")"));
  }

  void notice(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (options_.notice) options_.notice(text);
  }

  HubClient new_client() {
    return {hub_,          kind_,
            id_,           options_.retries,
            options_.http, [this](const std::string& text) { notice(text); },
            &shared_.stop};
  }

  std::vector<HubFile> weights(const std::vector<HubFile>& files) const {
    if (!fs::exists(snapshot_ / "config.json")) lacks("has no config.json");
    try {
      return files_of_weights(files, snapshot_.string());
    } catch (const Error& e) {
      lacks(e.what());
    }
  }

  // What of a file's bytes is there: all of them where another commit has the same file.
  std::uint64_t bytes_there(const HubFile& file) const {
    if (file.etag.empty()) return 0;
    for (const char* ending : {"", ".incomplete"}) {
      std::error_code absent;
      const std::uintmax_t size = fs::file_size(blobs_ / (file.etag + ending), absent);
      if (!absent) return std::min<std::uint64_t>(size, file.size);
    }
    return 0;
  }

  void check_space(const std::vector<HubFile>& files) const {
    std::uint64_t needed = 0;
    std::set<std::string> counted;
    for (const HubFile& file : files) {
      if (file.etag.empty() || counted.insert(file.etag).second)
        needed += file.size - bytes_there(file);
    }
    const std::uint64_t free = free_bytes(blobs_.string());
    if (free < needed) {
      fail_machine(cat(id_, ": ", human_bytes(needed), " are still to be fetched, ",
                       human_bytes(free), " are free in ", hub_.root,
                       "; free space, or choose another folder with HF_HUB_CACHE"));
    }
  }

  void fetch_all(const std::vector<HubFile>& wanted) {
    std::vector<HubFile> files;
    std::vector<std::vector<HubFile>> blobs;   // files of the same bytes
    std::map<std::string, std::size_t> known;  // their places, by etag
    progress_ = {};
    shared_.bytes = 0;
    for (const HubFile& file : wanted) {
      if (fs::exists(snapshot_ / file.path)) continue;
      files.push_back(file);
      progress_.bytes += file.size;
      const auto [at, is_new] = known.try_emplace(file.etag, blobs.size());
      if (is_new || file.etag.empty()) blobs.emplace_back();
      blobs[file.etag.empty() ? blobs.size() - 1 : at->second].push_back(file);
    }
    if (files.empty()) return;
    progress_.files = static_cast<std::int64_t>(files.size());
    check_space(files);
    std::atomic<std::size_t> next{0};
    std::exception_ptr error;
    const auto work = [&] {
      try {
        HubClient client = new_client();
        for (std::size_t i = next++; i < blobs.size() && !shared_.stop; i = next++)
          fetch_equal_files(client, blobs[i]);
      } catch (const HubStopped&) {
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error) error = std::current_exception();
        shared_.stop = true;
      }
      --at_work_;
    };
    const std::size_t threads =
        std::min(blobs.size(), static_cast<std::size_t>(std::max(options_.threads, 1)));
    at_work_ = static_cast<int>(threads);
    {
      std::vector<std::jthread> workers;
      for (std::size_t t = 0; t < threads; ++t) workers.emplace_back(work);
      while (at_work_ > 0) {
        std::this_thread::sleep_for(std::min(kProgressEvery, options_.retries.first_wait));
        report();
      }
    }
    if (error) std::rethrow_exception(error);
    report();
  }

  void report() {
    const std::lock_guard lock(mutex_);
    progress_.bytes_done = static_cast<std::uint64_t>(std::max<std::int64_t>(shared_.bytes, 0));
    if (options_.progress) options_.progress(progress_);
  }

  // Not in flock itself, which would see neither that another file has failed nor say whom it
  // waits for.
  std::unique_ptr<FileLock> lock_blob(const std::string& etag, const std::string& path) {
    const std::string name = (locks_ / (etag + ".lock")).string();
    for (bool said = false;; said = true) {
      auto lock = std::make_unique<FileLock>(name, FileLock::Wait::kNo);
      if (lock->state() != FileLock::State::kBusy) return lock;
      if (!said)
        notice(cat(id_, ": waiting for another process that fetches ", path, " (", name, ")"));
      if (shared_.stop) throw HubStopped{};
      std::this_thread::sleep_for(kLockEvery);
    }
  }

  // Files of which the hub's list says that they are one blob.
  void fetch_equal_files(HubClient& client, const std::vector<HubFile>& files) {
    std::string etag;
    for (const HubFile& file : files) {
      const fs::path blob = blobs_ / etag;
      if (etag.empty() || etag != file.etag || !fs::exists(blob)) {
        etag = fetch_file(client, file);
      } else {
        shared_.bytes += static_cast<std::int64_t>(file.size);
        link(file.path, blob);
      }
      const std::lock_guard lock(mutex_);
      ++progress_.files_done;
    }
  }

  // Returns the name of its blob.
  std::string fetch_file(HubClient& client, const HubFile& file) {
    for (bool again = false;; again = true) {
      HubFileHead head = client.head(commit_, file.path);
      head.is_git_blob = head.etag == file.etag && !head.is_sha256();
      const fs::path blob = blobs_ / head.etag;
      const auto lock = lock_blob(head.etag, file.path);
      try {
        if (fs::exists(blob)) {
          shared_.bytes += static_cast<std::int64_t>(file.size);
        } else {
          fetch_blob(client, file, head, blob.string());
        }
      } catch (const HubFileChanged&) {
        if (again) throw;
        continue;
      }
      link(file.path, blob);
      return head.etag;
    }
  }

  void fetch_blob(HubClient& client, const HubFile& file, const HubFileHead& head,
                  const std::string& blob) {
    for (bool again = false;; again = true) {
      BlobFile part(blob, head, shared_);
      client.get(commit_, file.path, head, part);
      const std::string difference = part.difference();
      if (difference.empty()) return part.publish();
      part.discard();
      if (again) {
        fail(cat(id_, ": ", file.path, " arrived damaged twice (", difference,
                 "); what arrived is removed, try again later"));
      }
    }
  }

  void link(const std::string& path, const fs::path& blob) const {
    const fs::path pointer = snapshot_ / path;
    make_folder(pointer.parent_path());
    if (!replace_symlink(pointer.string(), fs::relative(blob, pointer.parent_path()).string())) {
      fs::rename(blob, pointer);  // as the official client does without symbolic links
    }
  }

  const HubCache& hub_;
  RepoKind kind_;
  std::string id_;
  const FetchOptions& options_;
  std::string commit_;
  fs::path repo_, snapshot_, blobs_, locks_;
  std::mutex mutex_;
  FetchProgress progress_;
  BlobFile::Shared shared_;
  std::atomic<int> at_work_{0};
};

}  // namespace

namespace {

// Of a snapshot that nobody compares with the hub: what may be missing of it; "" where nothing
// speaks for that.
std::string doubt(const ResolvedRepo& local, RepoKind kind) {
  if (kind == RepoKind::kDataset) return "files of rows";
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
  if (WholeSnapshot(hub, kind, id, local).is_noted()) return local;
  const auto notice = [&](const std::string& text) {
    if (options.notice) options.notice(cat(id, ": ", text));
  };
  Fetch fetch(hub, kind, id, options);
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
  const std::string fetch_newest =
      cat("`hf download ", kind == RepoKind::kDataset ? "--repo-type dataset " : "", id, "`");
  const auto notice = [&](const std::string& text) {
    if (options.notice)
      options.notice(cat(id, ": the cache knows ", revision, " as commit ", commit, text));
  };
  notice(cat(", which is not whole; the hub is asked for that commit (", fetch_newest,
             " fetches the newest)"));
  try {
    return Fetch(hub, kind, id, options).run(commit);
  } catch (const HubNoRevision& e) {
    const fs::path repo = repo_folder(hub, id, kind), snapshot = repo / "snapshots" / commit;
    std::error_code error;
    if (fs::exists(snapshot, error) && !files_below(snapshot.string(), Hidden::kList).empty())
      fail(cat(e.what(), ", which is what ", (repo / "refs" / revision).string(),
               " says and of which ", snapshot.string(), " has a part; for the newest, ",
               fetch_newest, " or remove that reference"));
  }
  notice(", which the hub no longer has; nothing of it is here, so the newest is fetched");
  return Fetch(hub, kind, id, options).run(revision);
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
    return Fetch(hub, kind, path_or_id, options).run(revision);
  } catch (const ConnectionError& e) {
    fail_machine(
        cat(path_or_id,
            ": no such folder here; as a hub id, not, or not whole, in the cache (searched ",
            repo_folder(hub, path_or_id, kind), ") and cannot be fetched: ", e.what(),
            "; check the network and HF_ENDPOINT, or give the path of a folder"));
  }
}

}  // namespace glmtune::io
