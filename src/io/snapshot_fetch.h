#pragma once
// SnapshotFetch: the files of one commit of a repository, brought into the cache.
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "io/blob_file.h"
#include "io/file_lock.h"
#include "io/hub_client.h"
#include "io/hub_download.h"

namespace glmtune::io {

// For one repository; each call may set it to another commit. Throws ConnectionError.
class SnapshotFetch {
 public:
  SnapshotFetch(const HubCache& hub, RepoKind kind, std::string id, const FetchOptions& options)
      : hub_(hub), kind_(kind), id_(std::move(id)), options_(options) {}

  // Fetches what the snapshot of a branch, tag or commit lacks, then writes its reference.
  ResolvedRepo run(const std::string& revision);
  // What a snapshot lacks of the files that the hub lists of its commit; asks once. None: it is
  // whole, which is noted.
  std::vector<HubFile> missing(const ResolvedRepo& local);

 private:
  [[noreturn]] void lacks(const std::string& what) const;
  void notice(const std::string& text);
  HubClient new_client();
  std::vector<HubFile> weights(const std::vector<HubFile>& files) const;
  // What of a file's bytes is there: all of them where another commit has the same file.
  std::uint64_t bytes_there(const HubFile& file) const;
  void check_space(const std::vector<HubFile>& files) const;
  void fetch_all(const std::vector<HubFile>& wanted);
  void report();
  std::unique_ptr<FileLock> lock_blob(const std::string& etag, const std::string& path);
  // Files of which the hub's list says that they are one blob.
  void fetch_equal_files(HubClient& client, const std::vector<HubFile>& files);
  // Returns the name of its blob.
  std::string fetch_file(HubClient& client, const HubFile& file);
  void fetch_blob(HubClient& client, const HubFile& file, const HubFileHead& head,
                  const std::string& blob);
  void link(const std::string& path, const std::filesystem::path& blob) const;

  const HubCache& hub_;
  RepoKind kind_;
  std::string id_;
  const FetchOptions& options_;
  std::string commit_;
  std::filesystem::path repo_, snapshot_, blobs_, locks_;
  std::mutex mutex_;
  FetchProgress progress_;
  BlobFile::Shared shared_;
  std::atomic<int> at_work_{0};
};

}  // namespace glmtune::io
