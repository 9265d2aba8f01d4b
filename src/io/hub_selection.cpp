#include "io/hub_selection.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <set>

#include "base/cat.h"
#include "base/error.h"
#include "io/files.h"
#include "io/json.h"
#include "io/row_files.h"
#include "io/whole_note.h"

namespace glmtune::io {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kCard = "README.md";
constexpr const char* kConfigFile = "config.json";

bool is_of_tokenizer(const std::string& path) {
  constexpr std::array<std::string_view, 12> kNames{"config.json",
                                                    "generation_config.json",
                                                    "tokenizer.json",
                                                    "tokenizer.model",
                                                    "tokenizer_config.json",
                                                    "special_tokens_map.json",
                                                    "added_tokens.json",
                                                    "chat_template.jinja",
                                                    "chat_template.json",
                                                    "tiktoken.model",
                                                    "vocab.json",
                                                    "merges.txt"};
  return std::find(kNames.begin(), kNames.end(), path) != kNames.end();
}

bool is_weights(const std::string& path) {
  return path.ends_with(".safetensors") && path.find('/') == std::string::npos;
}

std::vector<HubFile> row_files(const std::vector<HubFile>& files, const std::string& snapshot) {
  std::vector<std::string> paths;
  std::set<std::string> there;
  for (const HubFile& file : files) {
    if (is_hidden(file.path) || !is_row_file(fs::path(file.path).filename().string())) continue;
    paths.push_back(file.path);
    if (fs::exists(fs::path(snapshot) / file.path)) there.insert(file.path);
  }
  const OneForm form = one_form(paths, there);
  std::set<std::string> wanted(form.chosen.begin(), form.chosen.end()), parts;
  for (const std::string& path : form.chosen) parts.insert(part_of_rows(path));
  // Subsets and splits that are there in the other form only.
  std::vector<std::string> elsewhere;
  std::copy_if(form.others.begin(), form.others.end(), std::back_inserter(elsewhere),
               [&](const std::string& path) { return !parts.contains(part_of_rows(path)); });
  for (std::string& path : one_form(elsewhere, there).chosen) wanted.insert(std::move(path));
  std::vector<HubFile> out;
  std::copy_if(files.begin(), files.end(), std::back_inserter(out),
               [&](const HubFile& f) { return wanted.contains(f.path); });
  return out;
}

}  // namespace

std::vector<HubFile> files_beside_weights(const std::vector<HubFile>& files, RepoKind kind,
                                          const std::string& snapshot) {
  std::vector<HubFile> out;
  const auto add_if = [&](const auto& is_wanted) {
    std::copy_if(files.begin(), files.end(), std::back_inserter(out), is_wanted);
  };
  if (kind == RepoKind::kDataset) {
    out = row_files(files, snapshot);
    if (!out.empty()) add_if([](const HubFile& f) { return f.path == kCard; });
  } else if (kind == RepoKind::kConfig) {
    add_if([](const HubFile& f) { return f.path == kConfigFile; });
  } else {
    add_if([&](const HubFile& f) {
      return is_of_tokenizer(f.path) || (f.path == kIndex && kind == RepoKind::kModel);
    });
  }
  return out;
}

std::vector<HubFile> files_of_weights(const std::vector<HubFile>& files,
                                      const std::string& snapshot) {
  const fs::path index_path = fs::path(snapshot) / kIndex;
  std::set<std::string> names;
  if (fs::exists(index_path)) {
    const Value index = read_json_file(index_path.string());
    const Value* map = index.is_object() ? index.find("weight_map") : nullptr;
    if (map == nullptr || !map->is_object()) fail(cat("has no object `weight_map` in ", kIndex));
    for (const auto& [tensor, file] : map->as_object()) {
      if (file.is_string()) names.insert(file.as_string());
    }
  } else {
    names.insert("model.safetensors");
  }
  std::vector<HubFile> out;
  std::copy_if(files.begin(), files.end(), std::back_inserter(out),
               [&](const HubFile& f) { return is_weights(f.path) && names.count(f.path) > 0; });
  for (const HubFile& f : out) names.erase(f.path);
  if (!names.empty()) fail(cat("has no ", *names.begin()));
  return out;
}

WholeSnapshot::WholeSnapshot(const HubCache& hub, RepoKind kind, const std::string& id,
                             const ResolvedRepo& snapshot)
    : path_(note_path(hub.root, repo_folder(hub, id, kind), snapshot.commit, kind).string()),
      folder_(snapshot.folder) {}

bool WholeSnapshot::is_noted() const {
  return !files_of_note(path_, folder_).empty();
}

void WholeSnapshot::note(const std::vector<HubFile>& files) const {
  std::string text;
  for (const HubFile& file : files) text += file.path + "\n";
  try {
    fs::create_directories(fs::path(path_).parent_path());
    write_file(path_, text);
  } catch (const Error&) {
  } catch (const fs::filesystem_error&) {
  }
}

}  // namespace glmtune::io
