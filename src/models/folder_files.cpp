#include "models/folder_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "base/cat.h"
#include "base/error.h"
#include "io/files.h"

namespace glmtune::models {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTemplates = "additional_chat_templates";
// Tokenizers of large vocabularies have 20 MB.
constexpr std::uint64_t kMostInMemory = std::uint64_t{64} << 20U;

bool is_companion(const std::string& name) {
  constexpr std::array<std::string_view, 13> kWeights = {".safetensors", ".safetensors.index.json",
                                                         ".bin",         ".bin.index.json",
                                                         ".pt",          ".pth",
                                                         ".ckpt",        ".h5",
                                                         ".msgpack",     ".gguf",
                                                         ".onnx",        ".npz",
                                                         ".distcp"};
  if (name.starts_with(".") || name == "config.json") return false;
  return std::none_of(kWeights.begin(), kWeights.end(),
                      [&](std::string_view end) { return name.ends_with(end); });
}

}  // namespace

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) io::fail_errno(folder, "creating the folder", error.value());
}

void Companions::read_files(const std::string& folder, const std::string& prefix) {
  std::error_code error;
  fs::directory_iterator at(folder, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!is_companion(name)) continue;
    const std::string path = at->path().string();
    std::error_code unknown;
    const fs::file_type type = at->status(unknown).type();
    // A link that leads nowhere, a folder, a socket: nothing to copy.
    if (type == fs::file_type::not_found || (!unknown && type != fs::file_type::regular)) continue;
    if (unknown) io::fail_errno(path, "opening for reading", unknown.value());
    io::ReadFile file(path);
    File kept{.name = prefix + name, .bytes = {}, .large = {}};
    if (file.size() > kMostInMemory) {
      kept.large = std::make_shared<const io::ReadFile>(std::move(file));
    } else {
      kept.bytes.resize(file.size());
      file.read(0, kept.bytes.data(), kept.bytes.size());
    }
    files_.push_back(std::move(kept));
  }
  if (error) io::fail_errno(folder, "listing the folder", error.value());
}

Companions Companions::read(const std::string& folder) {
  Companions out;
  out.read_files(folder, "");
  const fs::path templates = fs::path(folder) / kTemplates;
  std::error_code none;
  if (fs::is_directory(templates, none)) out.read_files(templates.string(), cat(kTemplates, "/"));
  std::sort(out.files_.begin(), out.files_.end(),
            [](const File& a, const File& b) { return a.name < b.name; });
  return out;
}

std::vector<std::string> Companions::write(const std::string& folder) const {
  std::vector<std::string> names;
  for (const File& file : files_) {
    const fs::path to = fs::path(folder) / file.name;
    if (file.name.starts_with(kTemplates)) make_folder(to.parent_path().string());
    if (file.large)
      io::copy_file(*file.large, to.string());
    else
      io::write_file(to.string(), file.bytes);
    names.push_back(file.name);
  }
  return names;
}

}  // namespace glmtune::models
