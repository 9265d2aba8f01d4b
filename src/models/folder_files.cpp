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

void copy_files(const fs::path& from, const fs::path& to, const std::string& prefix,
                std::vector<std::string>& copied) {
  for (const auto& entry : fs::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || !is_companion(name)) continue;
    io::copy_file(entry.path().string(), (to / name).string());
    copied.push_back(prefix + name);
  }
}

}  // namespace

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    fail(cat(folder, ": cannot be created: ", error.message(),
             "; check the path and its permissions"));
  }
}

std::vector<std::string> copy_companions(const std::string& from, const std::string& to) {
  std::vector<std::string> copied;
  copy_files(from, to, "", copied);
  if (const fs::path templates = fs::path(from) / kTemplates; fs::is_directory(templates)) {
    make_folder((fs::path(to) / kTemplates).string());
    copy_files(templates, fs::path(to) / kTemplates, cat(kTemplates, "/"), copied);
  }
  std::sort(copied.begin(), copied.end());
  return copied;
}

}  // namespace glmtune::models
