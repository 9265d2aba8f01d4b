#pragma once
// The folder a run saves to: <checkpoint_dir>/epoch_E_step_S/, LATEST, LOWEST_VAL. A step's folder
// holds `.incomplete` from its first moment until everything in it is durable and its manifest.json
// is written; readers ignore such a folder, and the next start or save removes it. A published
// folder is never overwritten.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint_manifest.h"

namespace glmtune::train {

struct StepFolder {
  std::int64_t epoch = 0, step = 0;
  std::string path;
};

class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::string root) : root_(std::move(root)) {}

  // Creates the root; an error names it when it cannot be written.
  void create() const;
  const std::string& root() const { return root_; }

  // Writes epoch_E_step_S through `write(folder)`, publishes it and points LATEST at it. An
  // existing published folder of that name is an error. `write` returns the checksums it knows; the
  // manifest reads the other files. When it throws, what it wrote is removed. run: for the
  // manifest.
  StepFolder save(std::int64_t epoch, std::int64_t step,
                  const std::function<Checksums(const std::string&)>& write,
                  const io::Value& run = {}) const;

  // Removes what an interrupted save or removal left behind, and returns its paths.
  std::vector<std::string> remove_leftovers() const;

  // Step folders that a save could not use: published ones and those that others made; by step.
  std::vector<StepFolder> occupied() const;
  // Published folders, by step.
  std::vector<StepFolder> published() const;
  // Why a folder of occupied() cannot be gone on from: it cannot be looked into, or is a checkpoint
  // without its manifest. Empty for one that can, and for what is no checkpoint.
  static std::string damage(const StepFolder& folder);
  // What a link names, when it names a published folder.
  std::optional<StepFolder> pointed_at(const std::string& link) const;
  // What is wrong with a link that names no published folder; empty where there is no link.
  std::string points_in_vain(const std::string& link) const;
  void point(const std::string& link, const StepFolder& folder) const;

  // What a recipe's restore_from may mean, the best first. "" and "LATEST": what LATEST names (a
  // later one where a crash kept LATEST from being moved), then the others by falling step;
  // "LOWEST_VAL", a name below the root or a path: that one, an error when it is missing or
  // incomplete. Whether they are whole is not looked at.
  std::vector<StepFolder> candidates(const std::string& restore_from) const;
  // The first of them whose state has the sizes and checksums of its manifest; a damaged one is an
  // error when restore_from names it. What a user should know is added to *note, a line
  // each.
  std::optional<StepFolder> first_whole(const std::vector<StepFolder>& candidates,
                                        const std::string& restore_from, std::string* note) const;
  std::optional<StepFolder> resolve(const std::string& restore_from, std::string* note) const {
    return first_whole(candidates(restore_from), restore_from, note);
  }

  // Removes those published folders that are the run's own (all where is_own is empty) but the
  // `keep` with the highest steps and those a link names; returns the removed paths. A failure to
  // remove is not an error.
  std::vector<std::string> retain(std::int64_t keep,
                                  const std::function<bool(const StepFolder&)>& is_own = {}) const;

 private:
  std::string target_of(const std::string& link) const;  // empty: none
  std::vector<StepFolder> newest_first() const;
  StepFolder named(const std::string& restore_from) const;

  std::string root_;
};

}  // namespace glmtune::train
