#include "train/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/cat.h"
#include "base/error.h"
#include "io/file_lock.h"
#include "io/files.h"

namespace glmtune::train {
namespace {

namespace fs = std::filesystem;
constexpr const char* kIncomplete = ".incomplete";
// In front of the name of a folder that is being removed.
constexpr std::string_view kRemoving = ".removing-";

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

// epoch_E_step_S; nullopt for any other name.
std::optional<StepFolder> parse(const fs::path& path) {
  const std::string name = path.filename().string();
  constexpr std::string_view prefix = "epoch_", middle = "_step_";
  const std::size_t at = name.find(middle);
  if (!name.starts_with(prefix) || at == std::string::npos) return std::nullopt;
  const auto epoch = number(std::string_view(name).substr(prefix.size(), at - prefix.size()));
  const auto step = number(std::string_view(name).substr(at + middle.size()));
  if (!epoch || !step) return std::nullopt;
  return StepFolder{.epoch = *epoch, .step = *step, .path = path.string()};
}

bool is_published(const fs::path& path) {
  std::error_code ec;
  return fs::is_directory(path, ec) && !fs::exists(path / kIncomplete, ec) &&
         fs::exists(path / kManifestName, ec);
}

// The mark of a folder that is being written, and a lock on it that the system lets go of when the
// process ends: tells a save in progress from one that was interrupted. A file system without locks
// is no reason not to save.
class Mark {
 public:
  explicit Mark(const fs::path& folder) : lock_((folder / kIncomplete).string()) {
    io::sync_folder(folder.string());
  }

  // Another process, or another save of this one, is at work in the folder.
  static bool is_held(const fs::path& folder) {
    return io::FileLock::is_busy((folder / kIncomplete).string());
  }

 private:
  io::FileLock lock_;
};

// Names of subfolders must be durable before the folder is published.
void sync_subfolders(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_directory()) io::sync_folder(entry.path().string());
}

std::vector<StepFolder> by_step(std::vector<StepFolder> folders) {
  std::sort(folders.begin(), folders.end(), [](const StepFolder& a, const StepFolder& b) {
    return std::pair(a.step, a.epoch) < std::pair(b.step, b.epoch);
  });
  return folders;
}

// Removes a folder; whether all of it is gone. Under another name one that is removed only in part
// is no checkpoint, and the next start finds it: no order of removal is safe in place, where the
// mark or the manifest may go first.
bool remove_folder(const fs::path& path) {
  std::error_code ec;
  const fs::path removing = path.parent_path() / cat(kRemoving, path.filename().string());
  fs::remove_all(removing, ec);
  fs::rename(path, removing, ec);
  if (ec) return false;
  fs::remove_all(removing, ec);
  return !ec;
}

// A step folder that a save of this program has not finished.
bool is_unfinished(const fs::path& path) {
  std::error_code ec;
  return parse(path) && !fs::is_symlink(path, ec) && fs::exists(path / kIncomplete, ec);
}

std::string usable_in_part(const std::string& folder, const std::string& damage) {
  return cat(folder, ": ", damage, "; training goes on from its state, but do not use that file");
}

[[noreturn]] void fail_create(const std::string& path, const std::error_code& ec) {
  const std::string text = cat("checkpoint.checkpoint_dir: cannot create ", path, ": ",
                               ec.message(), "; choose a folder that can be written");
  if (!io::is_users_error(ec.value())) fail_machine(text);
  fail(text);
}

}  // namespace

void CheckpointFolder::create() const {
  std::error_code ec;
  fs::create_directories(root_, ec);
  if (ec) fail_create(root_, ec);
}

StepFolder CheckpointFolder::save(std::int64_t epoch, std::int64_t step,
                                  const std::function<Checksums(const std::string&)>& write,
                                  const io::Value& run) const {
  create();
  const fs::path path = fs::path(root_) / cat("epoch_", epoch, "_step_", step);
  std::error_code ec;
  if (is_published(path))
    fail(cat(path.string(), " exists already and published checkpoints are never overwritten: ",
             "choose another checkpoint.checkpoint_dir, or remove it"));
  if (Mark::is_held(path))
    fail(cat(path.string(), " is being written by another process: give each run a ",
             "checkpoint.checkpoint_dir of its own"));
  const bool unfinished = fs::exists(path / kIncomplete, ec);
  if (unfinished) remove_folder(path);
  if (fs::exists(path, ec) && !fs::is_empty(path, ec))
    fail(unfinished ? cat(path.string(), " is an interrupted save and cannot be removed; remove it")
                    : cat(path.string(), " exists and was not written by glmtune: choose another ",
                          "checkpoint.checkpoint_dir, or remove it"));
  fs::create_directories(path, ec);
  if (ec) fail_create(path.string(), ec);
  try {
    const Mark mark(path);
    io::sync_folder(root_);
    const Checksums known = write(path.string());
    sync_subfolders(path);
    write_manifest(path.string(), epoch, step, run, known, kIncomplete);
    fs::remove(path / kIncomplete);
    io::sync_folder(path.string());
    io::sync_folder(root_);
  } catch (...) {
    remove_folder(path);
    throw;
  }
  StepFolder folder{.epoch = epoch, .step = step, .path = path.string()};
  point("LATEST", folder);
  return folder;
}

std::vector<std::string> CheckpointFolder::remove_leftovers() const {
  std::vector<fs::path> found;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(root_, ec)) {
    const std::string name = entry.path().filename().string();
    const bool is_link = name.starts_with(".LATEST") || name.starts_with(".LOWEST_VAL");
    if (name.starts_with(kRemoving) ||
        (is_unfinished(entry.path()) && !Mark::is_held(entry.path())) ||
        (is_link && name.find(".tmp-") != std::string::npos))
      found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> removed;
  for (const fs::path& path : found) {
    bool gone = false;
    if (is_unfinished(path)) {
      gone = remove_folder(path);
    } else {
      fs::remove_all(path, ec);
      gone = !ec;
    }
    if (gone) removed.push_back(path.string());
  }
  return removed;
}

std::vector<StepFolder> CheckpointFolder::occupied() const {
  std::vector<StepFolder> found;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(root_, ec)) {
    const auto folder = parse(entry.path());
    if (!folder || is_unfinished(entry.path())) continue;
    if (!fs::is_directory(entry.path(), ec) || !fs::is_empty(entry.path(), ec))
      found.push_back(*folder);
  }
  return by_step(std::move(found));
}

std::string CheckpointFolder::damage(const StepFolder& folder) {
  std::error_code ec;
  const fs::directory_iterator listed(folder.path, ec);
  if (ec) return cat("it cannot be read (", ec.message(), ")");
  const fs::path path = folder.path;
  const bool whole = fs::exists(path / kManifestName, ec);
  if (ec) return cat("it cannot be read (", ec.message(), ")");
  if (whole || !fs::exists(path / "state.json", ec)) return "";
  return cat("it is a damaged checkpoint, its ", kManifestName, " is missing");
}

std::vector<StepFolder> CheckpointFolder::published() const {
  std::vector<StepFolder> found;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(root_, ec)) {
    const auto folder = parse(entry.path());
    if (folder && !entry.is_symlink() && is_published(entry.path())) found.push_back(*folder);
  }
  return by_step(std::move(found));
}

std::string CheckpointFolder::target_of(const std::string& link) const {
  std::error_code ec;
  const fs::path path = fs::path(root_) / link;
  std::string name;
  if (fs::is_symlink(path, ec))
    name = fs::read_symlink(path, ec).string();
  else if (fs::exists(path.string() + ".txt", ec))
    name = io::read_file(path.string() + ".txt");
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

std::optional<StepFolder> CheckpointFolder::pointed_at(const std::string& link) const {
  const std::string name = target_of(link);
  if (name.empty() || !is_published(fs::path(root_) / name)) return std::nullopt;
  return parse(fs::path(root_) / name);
}

std::string CheckpointFolder::points_in_vain(const std::string& link) const {
  const std::string name = target_of(link);
  if (name.empty() || pointed_at(link)) return "";
  std::error_code ec;
  const fs::path target = fs::path(root_) / name;
  return cat((fs::path(root_) / link).string(), " names ", name, ", which is ",
             !fs::exists(target, ec) ? "not there"
             : fs::exists(target / kIncomplete, ec)
                 ? "incomplete (its save was interrupted)"
                 : "not a glmtune checkpoint (no manifest.json)");
}

void CheckpointFolder::point(const std::string& link, const StepFolder& folder) const {
  const std::string name = fs::path(folder.path).filename().string();
  const std::string path = (fs::path(root_) / link).string();
  if (!io::replace_symlink(path, name)) io::write_file(path + ".txt", name + "\n");
}

// LATEST is behind when a process ended between publishing a folder and pointing at it: such a
// folder has a higher step and was saved later. One that is older belongs to a branch of steps that
// a later run has left.
std::vector<StepFolder> CheckpointFolder::newest_first() const {
  std::vector<StepFolder> found = published();
  std::reverse(found.begin(), found.end());
  const auto latest = pointed_at("LATEST");
  if (!latest) return found;
  const std::string then = saved_at(latest->path);
  std::stable_partition(found.begin(), found.end(), [&](const StepFolder& f) {
    if (f.path == latest->path) return true;
    return f.step > latest->step && !then.empty() && saved_at(f.path) >= then;
  });
  return found;
}

StepFolder CheckpointFolder::named(const std::string& restore_from) const {
  std::error_code ec;
  const fs::path below = fs::path(root_) / restore_from;
  const fs::path path = fs::is_directory(below, ec) ? below : fs::path(restore_from);
  if (!fs::is_directory(path, ec))
    fail(cat("checkpoint.restore_from: ",
             below == fs::path(restore_from)
                 ? cat(restore_from, " is no folder")
                 : cat("neither ", below.string(), " nor ", restore_from, " is a folder"),
             "; name a path, a folder below checkpoint_dir, LATEST or LOWEST_VAL"));
  if (!is_published(path))
    fail(cat("checkpoint.restore_from: ", path.string(), " is ",
             fs::exists(path / kIncomplete, ec) ? "incomplete (its save was interrupted)"
                                                : "not a glmtune checkpoint (no manifest.json)"));
  const auto folder = parse(fs::canonical(path, ec));
  return folder ? *folder : StepFolder{.epoch = 0, .step = 0, .path = path.string()};
}

std::vector<StepFolder> CheckpointFolder::candidates(const std::string& restore_from) const {
  if (restore_from.empty() || restore_from == "LATEST") return newest_first();
  if (restore_from != "LOWEST_VAL") return {named(restore_from)};
  const auto lowest = pointed_at("LOWEST_VAL");
  if (lowest) return {*lowest};
  const std::string vain = points_in_vain("LOWEST_VAL");
  std::string there;
  for (const StepFolder& f : published())
    there += cat(there.empty() ? "" : ", ", fs::path(f.path).filename().string());
  fail(cat("checkpoint.restore_from: ",
           vain.empty() ? cat("LOWEST_VAL: ", root_, " has no such link") : vain, "; ",
           there.empty() ? "there is no complete checkpoint" : cat("complete are: ", there)));
}

std::optional<StepFolder> CheckpointFolder::first_whole(const std::vector<StepFolder>& candidates,
                                                        const std::string& restore_from,
                                                        std::string* note) const {
  const auto add_note = [&](const std::string& text) {
    if (note != nullptr) *note += cat(note->empty() ? "" : "\n", text);
  };
  const bool is_word = restore_from.empty() || restore_from == "LATEST";
  for (const StepFolder& folder : candidates) {
    const ManifestDamage damage = check_manifest(folder.path);
    if (damage.state.empty()) {
      if (!damage.others.empty()) add_note(usable_in_part(folder.path, damage.others));
      return folder;
    }
    if (!is_word)
      fail(cat("checkpoint.restore_from: ", folder.path, " is damaged: ", damage.state,
               "; name another checkpoint"));
    add_note(cat(folder.path, " is left out, ", damage.state));
  }
  if (!restore_from.empty())
    add_note(cat("checkpoint.restore_from: ", restore_from, ": no complete checkpoint in ", root_,
                 "; starting from the base model"));
  return std::nullopt;
}

std::vector<std::string> CheckpointFolder::retain(
    std::int64_t keep, const std::function<bool(const StepFolder&)>& is_own) const {
  std::vector<StepFolder> all = published();
  if (is_own) std::erase_if(all, [&](const StepFolder& f) { return !is_own(f); });
  std::vector<std::string> removed;
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < all.size(); ++i) {
    bool linked = false;
    for (const char* link : {"LATEST", "LOWEST_VAL"}) {
      const auto target = pointed_at(link);
      linked = linked || (target && target->path == all[i].path);
    }
    if (linked) continue;
    if (remove_folder(all[i].path)) removed.push_back(all[i].path);
  }
  return removed;
}

}  // namespace glmtune::train
