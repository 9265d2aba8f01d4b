#include "io/snapshot_fetch.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "base/cat.h"
#include "base/error.h"
#include "io/files.h"
#include "io/hub_selection.h"
#include "io/this_process.h"

namespace glmtune::io {
namespace {

namespace fs = std::filesystem;

constexpr auto kProgressEvery = std::chrono::milliseconds(200);
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

}  // namespace

ResolvedRepo SnapshotFetch::run(const std::string& revision) {
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
  if (files.empty() && kind_ == RepoKind::kConfig) lacks("has no config.json");
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

std::vector<HubFile> SnapshotFetch::missing(const ResolvedRepo& local) {
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

void SnapshotFetch::lacks(const std::string& what) const {
  fail(cat(id_, ": ", hub_.endpoint, " ", what, " in it (commit ", commit_, ")"));
}

void SnapshotFetch::notice(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (options_.notice) options_.notice(text);
}

HubClient SnapshotFetch::new_client() {
  return {hub_,          kind_,
          id_,           options_.retries,
          options_.http, [this](const std::string& text) { notice(text); },
          &shared_.stop};
}

std::vector<HubFile> SnapshotFetch::weights(const std::vector<HubFile>& files) const {
  if (!fs::exists(snapshot_ / "config.json")) lacks("has no config.json");
  try {
    return files_of_weights(files, snapshot_.string());
  } catch (const Error& e) {
    lacks(e.what());
  }
}

std::uint64_t SnapshotFetch::bytes_there(const HubFile& file) const {
  if (file.etag.empty()) return 0;
  for (const char* ending : {"", ".incomplete"}) {
    std::error_code absent;
    const std::uintmax_t size = fs::file_size(blobs_ / (file.etag + ending), absent);
    if (!absent) return std::min<std::uint64_t>(size, file.size);
  }
  return 0;
}

void SnapshotFetch::check_space(const std::vector<HubFile>& files) const {
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

void SnapshotFetch::fetch_all(const std::vector<HubFile>& wanted) {
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

void SnapshotFetch::report() {
  const std::lock_guard lock(mutex_);
  progress_.bytes_done = static_cast<std::uint64_t>(std::max<std::int64_t>(shared_.bytes, 0));
  if (options_.progress) options_.progress(progress_);
}

std::unique_ptr<FileLock> SnapshotFetch::lock_blob(const std::string& etag,
                                                   const std::string& path) {
  const std::string name = (locks_ / (etag + ".lock")).string();
  std::optional<std::string> said;
  auto lock = wait_for_lock(name, [&](const std::string& holder) {
    if (shared_.stop) throw HubStopped{};
    if (said == holder) return;
    said = holder;
    notice(cat(id_, ": waiting for ", holder.empty() ? "another process" : holder,
               ", which fetches ", path, " (", name, ")"));
  });
  lock->set_note(this_process());
  return lock;
}

void SnapshotFetch::fetch_equal_files(HubClient& client, const std::vector<HubFile>& files) {
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

std::string SnapshotFetch::fetch_file(HubClient& client, const HubFile& file) {
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

void SnapshotFetch::fetch_blob(HubClient& client, const HubFile& file, const HubFileHead& head,
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

void SnapshotFetch::link(const std::string& path, const fs::path& blob) const {
  const fs::path pointer = snapshot_ / path;
  make_folder(pointer.parent_path());
  if (!replace_symlink(pointer.string(), fs::relative(blob, pointer.parent_path()).string())) {
    fs::rename(blob, pointer);  // as the official client does without symbolic links
  }
}

}  // namespace glmtune::io
