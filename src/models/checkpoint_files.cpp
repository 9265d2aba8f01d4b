#include "models/checkpoint_files.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/cat.h"
#include "base/error.h"

namespace glmtune::models {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// File names of weight_map, in order and once each.
std::vector<std::string> shards_of(const io::Value& index, const std::string& path) {
  const io::Value* map = index.is_object() ? index.find("weight_map") : nullptr;
  if (map == nullptr || !map->is_object()) fail(cat(path, ": has no object `weight_map`"));
  std::set<std::string> shards;
  for (const auto& [tensor, file] : map->as_object()) {
    if (!file.is_string()) fail(cat(path, ": weight_map: ", tensor, " is not a file name"));
    const std::string& name = file.as_string();
    if (name.empty() || name.find('/') != std::string::npos || name == "." || name == "..") {
      fail(cat(path, ": weight_map: ", tensor, ": \"", name, "\" is not a file of this folder"));
    }
    shards.insert(name);
  }
  if (shards.empty()) fail(cat(path, ": weight_map names no tensors"));
  return {shards.begin(), shards.end()};
}

[[noreturn]] void fail_without_weights(const std::string& folder) {
  std::string hint;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".bin") || name.ends_with(".gguf") || name.ends_with(".pt")) {
      hint = cat("; ", name, " is of a kind that is not read, convert it to safetensors");
    }
  }
  fail(cat(folder, ": holds no weights: neither ", kSingle, " nor ", kIndex, hint));
}

// A safetensors file that is not part of the checkpoint must not hold its tensors a second time.
void check_strays(const CheckpointFiles& c, Problems& problems) {
  for (const auto& entry : fs::directory_iterator(c.folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".safetensors") || name.starts_with(".") ||
        std::binary_search(c.names.begin(), c.names.end(), name)) {
      continue;
    }
    try {
      const auto file = io::SafetensorsFile::open(entry.path().string());
      for (const io::TensorInfo& t : file.tensors()) {
        if (!c.tensors.contains(t.name)) continue;
        problems.add(cat(name, ": is not listed in the index but holds ", t.name, " too",
                         "; remove it, or the index that leaves it out"));
        break;
      }
    } catch (const MachineError&) {
      throw;
    } catch (const Error&) {
      // Not part of the checkpoint and not readable: nothing is loaded from it.
    }
  }
}

void check_index(const CheckpointFiles& c, const std::set<std::string>& opened,
                 Problems& problems) {
  for (const auto& [tensor, file] : c.index->find("weight_map")->as_object()) {
    if (!opened.contains(file.as_string())) continue;  // reported for the file as a whole
    const StoredTensor* found = c.find(tensor);
    if (found == nullptr) {
      problems.add(
          cat(tensor, ": is listed in the index for ", file.as_string(), " but not in that file"));
    } else if (const auto name = fs::path(found->file->path()).filename().string();
               name != file.as_string()) {
      problems.add(
          cat(tensor, ": is listed in the index for ", file.as_string(), " but lies in ", name));
    }
  }
  std::set<std::string_view> listed;
  for (const auto& [tensor, file] : c.index->find("weight_map")->as_object()) listed.insert(tensor);
  for (const auto& [tensor, where] : c.tensors) {
    if (!listed.contains(tensor)) {
      problems.add(cat(tensor, ": lies in ", fs::path(where.file->path()).filename().string(),
                       " but is not listed in the index"));
    }
  }
}

}  // namespace

void Problems::raise(const std::string& what) const {
  if (list_.empty()) return;
  constexpr std::size_t kShown = 10;
  std::string message = cat(what, ": ", list_.size(), list_.size() == 1 ? " problem" : " problems");
  for (std::size_t i = 0; i < std::min(list_.size(), kShown); ++i) message += "\n  " + list_[i];
  if (list_.size() > kShown) message += cat("\n  and ", list_.size() - kShown, " more");
  fail(message);
}

const StoredTensor* CheckpointFiles::find(const std::string& name) const {
  const auto it = tensors.find(name);
  return it == tensors.end() ? nullptr : &it->second;
}

std::uint64_t CheckpointFiles::data_bytes() const {
  std::uint64_t n = 0;
  for (const auto& [name, t] : tensors) n += t.info->bytes();
  return n;
}

CheckpointFiles CheckpointFiles::open(const std::string& folder, Problems& problems) {
  CheckpointFiles c;
  c.folder = folder;
  const fs::path root(folder);
  if (fs::exists(root / kIndex)) {
    const std::string path = (root / kIndex).string();
    c.index_text = io::read_file(path);
    c.index = io::parse_json(c.index_text, path);
    c.names = shards_of(*c.index, path);
  } else if (fs::exists(root / kSingle)) {
    c.names = {kSingle};
  } else {
    fail_without_weights(folder);
  }
  std::set<std::string> opened;
  c.files.reserve(c.names.size());  // tensors point into the elements
  for (const std::string& name : c.names) {
    if (!fs::exists(root / name)) {
      std::size_t count = 0;
      for (const auto& [tensor, file] : c.index->find("weight_map")->as_object()) {
        count += file.as_string() == name ? 1 : 0;
      }
      problems.add(cat(name, ": the file is missing (the index lists ", count, " tensors in it)"));
      continue;
    }
    try {
      c.files.push_back(io::SafetensorsFile::open((root / name).string()));
      opened.insert(name);
    } catch (const MachineError&) {
      throw;
    } catch (const Error& e) {
      problems.add(e.what());
    }
  }
  for (const io::SafetensorsFile& file : c.files) {
    for (const io::TensorInfo& t : file.tensors()) {
      const auto [it, fresh] = c.tensors.emplace(t.name, StoredTensor{&file, &t});
      if (!fresh) {
        problems.add(cat(t.name, ": lies in two files, ",
                         fs::path(it->second.file->path()).filename().string(), " and ",
                         fs::path(file.path()).filename().string()));
      }
    }
  }
  if (c.index) check_index(c, opened, problems);
  check_strays(c, problems);
  return c;
}

}  // namespace glmtune::models
