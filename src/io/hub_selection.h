#pragma once
// Which files of a repository are wanted, and a record that a snapshot in the cache has them all.
#include <string>
#include <vector>

#include "io/hub_client.h"

namespace glmtune::io {

// Of a data set its files of rows, in one form (one_form() of row_files.h: that of which more is in
// `snapshot`, the folder of this commit, where any is; subsets and splits that have the other form
// only, in that) and its card; of a model or tokenizer everything beside the weights.
std::vector<HubFile> files_beside_weights(const std::vector<HubFile>& files, RepoKind kind,
                                          const std::string& snapshot);

// The files of weights that a snapshot's index names, model.safetensors where it has none. Error
// where the list lacks one: "has no FILE".
std::vector<HubFile> files_of_weights(const std::vector<HubFile>& files,
                                      const std::string& snapshot);

// A snapshot may be half of what the hub has: other clients write its reference first, and fetch
// single files. What was compared with the hub's list once is noted beside the locks of the cache.
class WholeSnapshot {
 public:
  WholeSnapshot(const HubCache& hub, RepoKind kind, const std::string& id,
                const ResolvedRepo& snapshot);
  // Noted, and every file of then is still there.
  bool is_noted() const;
  // A cache that may not be written is asked about again next time.
  void note(const std::vector<HubFile>& files) const;

 private:
  std::string path_, folder_;
};

}  // namespace glmtune::io
