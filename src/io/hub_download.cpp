#include "io/hub_download.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <filesystem>
#include <map>
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
#include "io/json.h"
#include "io/row_files.h"

namespace glmtune::io {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr auto kProgressEvery = std::chrono::milliseconds(200);

bool is_of_tokenizer(const std::string& path) {
  constexpr std::array<std::string_view, 12> kNames{"config.json",
                                                    "generation_config.json",
                                                    "tokenizer.json",
                                                    "tokenizer.model",
                                                    "tokenizer_config.json",
                                                    "special_tokens_map.json",
                                                    "added_tokens.json",
                                                    "chat_template.jinja",
                                                    "chat_template.json",
                                                    "tiktoken.model",
                                                    "vocab.json",
                                                    "merges.txt"};
  return std::find(kNames.begin(), kNames.end(), path) != kNames.end();
}

bool is_weights(const std::string& path) {
  return path.ends_with(".safetensors") && path.find('/') == std::string::npos;
}

// The ending that most files of rows have: a data set that is there in two formats is read once.
std::vector<HubFile> row_files(const std::vector<HubFile>& files) {
  std::map<std::string, std::vector<HubFile>> by_ending;
  for (const HubFile& file : files) {
    const std::string name = fs::path(file.path).filename().string();
    if (is_row_file(name)) by_ending[std::string(row_file_ending(name))].push_back(file);
  }
  std::vector<HubFile> best;
  for (auto& [ending, of_ending] : by_ending) {
    if (of_ending.size() > best.size()) best = std::move(of_ending);
  }
  return best;
}

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
    HubClient client = new_client();
    const HubRevision found = client.revision(revision);
    commit_ = found.commit;
    repo_ = repo_folder(hub_, id_, kind_);
    snapshot_ = make_folder(repo_ / "snapshots" / commit_);
    blobs_ = make_folder(repo_ / "blobs");
    locks_ = make_folder(fs::path(hub_.root) / ".locks" / repo_.filename());
    if (kind_ == RepoKind::kDataset) {
      const std::vector<HubFile> files = row_files(found.files);
      if (files.empty()) lacks("file of rows (.parquet, .jsonl or .json)");
      fetch_all(files);
    } else {
      std::vector<HubFile> files;
      std::copy_if(
          found.files.begin(), found.files.end(), std::back_inserter(files), [&](const HubFile& f) {
            return is_of_tokenizer(f.path) || (f.path == kIndex && kind_ == RepoKind::kModel);
          });
      fetch_all(files);
      if (kind_ == RepoKind::kModel) fetch_all(weights(found.files));
    }
    if (revision != commit_) {
      const fs::path ref = repo_ / "refs" / revision;
      make_folder(ref.parent_path());
      write_file(ref.string(), commit_);
    }
    return {snapshot_.string(), commit_};
  }

 private:
  [[noreturn]] void lacks(const std::string& what) const {
    fail(cat(id_, ": ", hub_.endpoint, " has no ", what, " in it (commit ", commit_, ")"));
  }

  HubClient new_client() {
    return {hub_, kind_, id_, options_.retries, options_.http, [this](const std::string& text) {
              const std::lock_guard lock(mutex_);
              if (options_.notice) options_.notice(text);
            }};
  }

  std::vector<HubFile> weights(const std::vector<HubFile>& files) const {
    if (!fs::exists(snapshot_ / "config.json")) lacks("config.json");
    std::set<std::string> names;
    if (fs::exists(snapshot_ / kIndex)) {
      const Value index = read_json_file((snapshot_ / kIndex).string());
      const Value* map = index.is_object() ? index.find("weight_map") : nullptr;
      if (map == nullptr || !map->is_object()) lacks(cat("object `weight_map` in ", kIndex));
      for (const auto& [tensor, file] : map->as_object()) {
        if (file.is_string()) names.insert(file.as_string());
      }
    } else {
      names.insert("model.safetensors");
    }
    std::vector<HubFile> out;
    std::copy_if(files.begin(), files.end(), std::back_inserter(out),
                 [&](const HubFile& f) { return is_weights(f.path) && names.count(f.path) > 0; });
    if (out.size() < names.size()) {
      for (const HubFile& f : out) names.erase(f.path);
      lacks(*names.begin());
    }
    return out;
  }

  void check_space(std::uint64_t wanted) const {
    std::uint64_t there = 0;
    for (const auto& entry : fs::directory_iterator(blobs_)) {
      std::error_code gone;
      if (entry.path().extension() == ".incomplete") {
        const std::uintmax_t size = entry.file_size(gone);
        if (!gone) there += size;
      }
    }
    const std::uint64_t needed = wanted - std::min(wanted, there);
    const std::uint64_t free = free_bytes(blobs_.string());
    if (free < needed) {
      fail_machine(cat(id_, ": ", human_bytes(needed), " are still to be fetched, ",
                       human_bytes(free), " are free in ", hub_.root,
                       "; free space, or choose another folder with HF_HUB_CACHE"));
    }
  }

  void fetch_all(const std::vector<HubFile>& wanted) {
    std::vector<HubFile> files;
    progress_ = {};
    shared_.bytes = 0;
    for (const HubFile& file : wanted) {
      if (!fs::exists(snapshot_ / file.path)) {
        files.push_back(file);
        progress_.bytes += file.size;
      }
    }
    if (files.empty()) return;
    progress_.files = static_cast<std::int64_t>(files.size());
    check_space(progress_.bytes);
    std::atomic<std::size_t> next{0};
    std::exception_ptr error;
    const auto work = [&] {
      try {
        HubClient client = new_client();
        for (std::size_t i = next++; i < files.size() && !shared_.stop; i = next++) {
          fetch_file(client, files[i]);
          const std::lock_guard lock(mutex_);
          ++progress_.files_done;
        }
      } catch (const BlobFile::Stopped&) {
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error) error = std::current_exception();
        shared_.stop = true;
      }
      --at_work_;
    };
    const std::size_t threads =
        std::min(files.size(), static_cast<std::size_t>(std::max(options_.threads, 1)));
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

  void fetch_file(HubClient& client, const HubFile& file) {
    for (bool again = false;; again = true) {
      const HubFileHead head = client.head(commit_, file.path);
      const fs::path blob = blobs_ / head.etag;
      const FileLock lock((locks_ / (head.etag + ".lock")).string(), FileLock::Wait::kYes);
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
      return;
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

ResolvedRepo fetch_repo(const std::string& path_or_id, RepoKind kind, const HubCache& hub,
                        const FetchOptions& options, const std::string& revision) {
  std::error_code error;
  if (fs::exists(path_or_id, error) || !is_hub_id(path_or_id) || hub.offline) {
    return resolve_repo(path_or_id, kind, hub, revision);
  }
  std::optional<ResolvedRepo> local;
  try {
    local = resolve_repo(path_or_id, kind, hub, revision);
  } catch (const MachineError&) {
    throw;
  } catch (const Error&) {  // a miss; the hub may have it
  }
  // Another client may have left a model without its tokenizer.
  if (local && (kind != RepoKind::kModel || fs::exists(fs::path(local->folder) / "tokenizer.json")))
    return *local;
  try {
    return Fetch(hub, kind, path_or_id, options).run(revision);
  } catch (const ConnectionError& e) {
    if (local) return *local;
    fail_machine(cat(path_or_id, ": is not, or not whole, in the cache (searched ",
                     repo_folder(hub, path_or_id, kind), ") and cannot be fetched: ", e.what(),
                     "; check the network and HF_ENDPOINT, or give the path of a folder"));
  }
}

}  // namespace glmtune::io
