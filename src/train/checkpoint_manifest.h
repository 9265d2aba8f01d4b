#pragma once
// manifest.json of a step folder: what the run is, and every file with its size and its crc32c;
// written last.
#include <cstdint>
#include <map>
#include <string>

#include "io/json.h"

namespace glmtune::train {

inline constexpr const char* kManifestName = "manifest.json";

// crc32c of files as they were handed to the disk, by path below the step folder.
using Checksums = std::map<std::string, std::uint32_t>;

// Lists every regular file below `folder` but `except`. Files that `known` does not have are read
// again for their checksum. run: what the run says of itself (run_facts), or null.
void write_manifest(const std::string& folder, std::int64_t epoch, std::int64_t step,
                    const io::Value& run, const Checksums& known, const std::string& except);

// Replaces one file of a finished folder, and what its manifest says of it. A process that ends in
// between leaves the file as damaged, and the folder otherwise whole.
void replace_listed_file(const std::string& folder, const std::string& name,
                         const std::string& text);

// When a step folder was saved: "2026-08-22T12:00:00.123Z", which orders as text. Empty where its
// manifest cannot be read or (of an early version) does not say.
std::string saved_at(const std::string& folder);

// What of a step folder is not as its manifest says, with file, found and expected; "" when all is.
struct ManifestDamage {
  std::string state;   // the manifest itself and the state.* files: the folder cannot be resumed
  std::string others;  // anything else, such as the exported model: a resume does not read it
};
// Sizes first, then the state's contents against the checksums; those of the exported model, which
// may be a terabyte, are not read. A manifest without checksums (of an early version) is checked
// for sizes only.
ManifestDamage check_manifest(const std::string& folder);
// The same of one file, with its contents; "" when it is as the manifest says.
std::string damage_of(const std::string& folder, const std::string& name);

}  // namespace glmtune::train
