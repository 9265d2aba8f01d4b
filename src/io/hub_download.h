#pragma once
// Models and data sets fetched from the Hugging Face hub into the local cache, laid out as the
// official client lays it out: blobs/ETAG, snapshots/COMMIT/PATH as links to them, refs/REVISION.
//
// A part that is there (blobs/ETAG.incomplete) is continued, large files are checked against their
// sha256 and the others against git's sha1, free space is checked before, and of several processes
// or ranks that want the same file one fetches it while the others wait (.locks/REPO/ETAG.lock).
// The reference is written when all files are there, so that half a data set is never taken for a
// whole one; what another client left in the cache is compared with the hub's list of files once,
// and completed.
#include <cstdint>
#include <functional>
#include <string>

#include "io/hub_client.h"

namespace glmtune::io {

struct FetchProgress {
  std::int64_t files_done = 0, files = 0;
  std::uint64_t bytes_done = 0, bytes = 0;  // with the parts that were there before
};

struct FetchOptions {
  int threads = 8;  // files at a time
  HubRetries retries;
  HttpSettings http;
  // Both from one thread at a time.
  std::function<void(const FetchProgress&)> progress;  // a few times a second
  std::function<void(const std::string&)> notice;      // retries, waits, doubts
};

// A folder that exists, or the snapshot of a hub id: from the cache where it is complete, else
// fetched. Of a model come config, tokenizer, template, generation config, index and the
// safetensors files (of a tokenizer not the last two, of a config the first alone); of a data set
// its files of rows, in one form, and its card. Where the hub cannot be asked, or what it has more
// of cannot be fetched, what is in the cache is used, with a notice; but not where the hub's list
// has rows or weights that the cache lacks: that ends in the Error or MachineError of the download.
ResolvedRepo fetch_repo(const std::string& path_or_id, RepoKind kind, const HubCache& hub,
                        const FetchOptions& options = {}, const std::string& revision = "main");

}  // namespace glmtune::io
