#include "train/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/cat.h"
#include "base/error.h"
#include "io/files.h"
#include "io/json.h"

namespace glmtune::train {
namespace {

namespace fs = std::filesystem;
constexpr const char* kIncomplete = ".incomplete";
constexpr const char* kManifest = "manifest.json";

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

// What of a published folder is not as its manifest says; empty when all of it is there.
std::string damage(const std::string& folder) {
  const std::string path = (fs::path(folder) / kManifest).string();
  try {
    const io::Value manifest = io::read_json_file(path);
    const io::Value* files = manifest.is_object() ? manifest.find("files") : nullptr;
    if (files == nullptr) return "manifest.json lists no files";
    for (const io::Value& file : files->as_array()) {
      const io::Value *name = file.find("name"), *bytes = file.find("bytes");
      if (name == nullptr || bytes == nullptr) return "manifest.json is damaged";
      std::error_code ec;
      const auto size = fs::file_size(fs::path(folder) / name->as_string(), ec);
      if (ec) return cat(name->as_string(), " is missing");
      if (static_cast<std::int64_t>(size) != bytes->as_int())
        return cat(name->as_string(), " has ", size, " bytes instead of ", bytes->as_int());
    }
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

bool is_published(const fs::path& path) {
  std::error_code ec;
  return fs::is_directory(path, ec) && !fs::exists(path / kIncomplete, ec) &&
         fs::exists(path / kManifest, ec);
}

// Every regular file below the folder with its size: what a reader checks first.
void write_manifest(const fs::path& folder, std::int64_t epoch, std::int64_t step) {
  io::Value::Array files;
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().filename() != kIncomplete)
      paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const fs::path& p : paths)
    files.push_back(io::Value::Object{{"name", fs::relative(p, folder).string()},
                                      {"bytes", static_cast<std::int64_t>(fs::file_size(p))}});
  const io::Value manifest(io::Value::Object{{"format", "glmtune checkpoint 1"},
                                             {"epoch", epoch},
                                             {"step", step},
                                             {"world_size", 1},
                                             {"files", std::move(files)}});
  io::write_file((folder / kManifest).string(), io::to_json(manifest, {.indent = 2}) + "\n");
}

[[noreturn]] void fail_create(const std::string& path, const std::error_code& ec) {
  fail(cat("checkpoint.checkpoint_dir: cannot create ", path, ": ", ec.message(),
           "; choose a folder that can be written"));
}

}  // namespace

void CheckpointFolder::create() const {
  std::error_code ec;
  fs::create_directories(root_, ec);
  if (ec) fail_create(root_, ec);
}

StepFolder CheckpointFolder::save(std::int64_t epoch, std::int64_t step,
                                  const std::function<void(const std::string&)>& write) const {
  create();
  const fs::path path = fs::path(root_) / cat("epoch_", epoch, "_step_", step);
  std::error_code ec;
  if (is_published(path))
    fail(cat(path.string(), " exists already and published checkpoints are never overwritten: ",
             "choose another checkpoint.checkpoint_dir, or remove it"));
  if (fs::exists(path / kIncomplete, ec)) fs::remove_all(path, ec);
  if (fs::exists(path, ec) && !fs::is_empty(path, ec))
    fail(cat(path.string(), " exists and was not written by glmtune: choose another ",
             "checkpoint.checkpoint_dir, or remove it"));
  fs::create_directories(path, ec);
  if (ec) fail_create(path.string(), ec);
  try {
    io::write_file((path / kIncomplete).string(), "");
    io::sync_folder(root_);
    write(path.string());
    write_manifest(path, epoch, step);
    fs::remove(path / kIncomplete);
    io::sync_folder(path.string());
    io::sync_folder(root_);
  } catch (...) {
    fs::remove_all(path, ec);
    throw;
  }
  StepFolder folder{.epoch = epoch, .step = step, .path = path.string()};
  point("LATEST", folder);
  return folder;
}

std::vector<StepFolder> CheckpointFolder::published() const {
  std::vector<StepFolder> found;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(root_, ec)) {
    const auto folder = parse(entry.path());
    if (folder && !entry.is_symlink() && is_published(entry.path())) found.push_back(*folder);
  }
  std::sort(found.begin(), found.end(), [](const StepFolder& a, const StepFolder& b) {
    return std::pair(a.step, a.epoch) < std::pair(b.step, b.epoch);
  });
  return found;
}

std::optional<StepFolder> CheckpointFolder::pointed_at(const std::string& link) const {
  std::error_code ec;
  const fs::path path = fs::path(root_) / link;
  std::string name;
  if (fs::is_symlink(path, ec))
    name = fs::read_symlink(path, ec).string();
  else if (fs::exists(path.string() + ".txt", ec))
    name = io::read_file(path.string() + ".txt");
  while (!name.empty() && name.back() == '\n') name.pop_back();
  if (name.empty() || !is_published(fs::path(root_) / name)) return std::nullopt;
  return parse(fs::path(root_) / name);
}

void CheckpointFolder::point(const std::string& link, const StepFolder& folder) const {
  const std::string name = fs::path(folder.path).filename().string();
  const std::string path = (fs::path(root_) / link).string();
  if (!io::replace_symlink(path, name)) io::write_file(path + ".txt", name + "\n");
}

std::optional<StepFolder> CheckpointFolder::resolve(const std::string& restore_from,
                                                    std::string* note) const {
  if (restore_from.empty() || restore_from == "LATEST" || restore_from == "LOWEST_VAL") {
    // The newest whole one: a crash after publishing may have left LATEST behind it.
    std::vector<StepFolder> candidates = published();
    if (restore_from == "LOWEST_VAL") {
      const auto lowest = pointed_at("LOWEST_VAL");
      candidates.clear();
      if (lowest) candidates.push_back(*lowest);
    }
    std::optional<StepFolder> folder;
    for (auto it = candidates.rbegin(); it != candidates.rend() && !folder; ++it) {
      const std::string problem = damage(it->path);
      if (problem.empty())
        folder = *it;
      else if (note != nullptr)
        *note = cat(it->path, " is left out, ", problem);
    }
    if (!folder && !restore_from.empty() && note != nullptr)
      *note = cat("checkpoint.restore_from: ", restore_from, ": no complete checkpoint in ", root_,
                  "; starting from the base model");
    return folder;
  }
  std::error_code ec;
  const fs::path below = fs::path(root_) / restore_from;
  const fs::path path = fs::is_directory(below, ec) ? below : fs::path(restore_from);
  if (!fs::is_directory(path, ec))
    fail(cat("checkpoint.restore_from: neither ", below.string(), " nor ", restore_from,
             " is a folder; name a path, a folder below checkpoint_dir, LATEST or LOWEST_VAL"));
  if (!is_published(path))
    fail(cat("checkpoint.restore_from: ", path.string(), " is ",
             fs::exists(path / kIncomplete, ec) ? "incomplete (its save was interrupted)"
                                                : "not a glmtune checkpoint (no manifest.json)"));
  if (const std::string problem = damage(path.string()); !problem.empty())
    fail(cat("checkpoint.restore_from: ", path.string(), " is damaged: ", problem));
  const auto folder = parse(fs::canonical(path, ec));
  return folder ? *folder : StepFolder{.path = path.string()};
}

std::vector<std::string> CheckpointFolder::retain(std::int64_t keep) const {
  std::vector<StepFolder> all = published();
  std::vector<std::string> removed;
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < all.size(); ++i) {
    bool linked = false;
    for (const char* link : {"LATEST", "LOWEST_VAL"}) {
      const auto target = pointed_at(link);
      linked = linked || (target && target->path == all[i].path);
    }
    if (linked) continue;
    std::error_code ec;
    // Without its manifest a folder that is removed only in part is no checkpoint.
    fs::remove(fs::path(all[i].path) / kManifest, ec);
    fs::remove_all(all[i].path, ec);
    if (!ec) removed.push_back(all[i].path);
  }
  return removed;
}

}  // namespace glmtune::train
