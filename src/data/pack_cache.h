#pragma once
// PackCache: tokenised and packed data sets in a folder, one file per content hash, shared by all
// ranks and runs that need the same. The first one to come makes the file while the others wait
// for it; a maker that dies lets go of its lock, and the next one makes the file; the Error of a
// maker that fails is theirs too. A new start tries again.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/pack.h"
#include "data/sample_store.h"

namespace glmtune::data {

// All that a packed data set consists of.
struct PackedContents {
  SampleStore store;
  std::vector<std::int64_t> documents;  // sample numbers, pack after pack
  std::vector<std::int64_t> starts{0};  // pack p: documents[starts[p] .. starts[p + 1])
  DataSummary summary;
};

class PackCache {
 public:
  // key: 32 hexadecimal digits that stand for everything the contents depend on.
  PackCache(const std::string& folder, const std::string& key);

  // The contents from the file, else from `make`, which are then stored. A damaged file is made
  // again. `notice` (if any) is told of a wait of some seconds: for whom, and since when.
  PackedContents get(const std::function<PackedContents()>& make,
                     const std::function<void(const std::string&)>& notice = {}) const;
  const std::string& path() const { return path_; }

 private:
  std::optional<PackedContents> read() const;
  void write(const PackedContents& contents) const;

  std::string folder_;
  std::string path_;
};

}  // namespace glmtune::data
