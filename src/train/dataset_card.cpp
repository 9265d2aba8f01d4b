#include "train/dataset_card.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/cat.h"
#include "base/error.h"
#include "io/folder_files.h"
#include "io/row_files.h"
#include "io/untrusted.h"
#include "io/whole_note.h"
#include "train/log.h"
#include "train/yaml_document.h"

namespace glmtune::train {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kCard = "the head of a data set's card";

// The YAML between the two lines "---" that a card begins with; empty without them.
std::string front_matter(const std::string& card) {
  std::string_view text = card;
  if (!text.starts_with("---")) return "";
  const std::size_t begin = text.find('\n');
  const std::size_t end = begin == std::string_view::npos ? begin : text.find("\n---", begin);
  if (end == std::string_view::npos) return "";
  return std::string(text.substr(begin + 1, end - begin));
}

std::string list_of(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out.empty() ? "none" : out;
}

std::string text_at(const YamlNode& map, std::string_view key) {
  const YamlNode* node = map.is_map() ? map.find(key) : nullptr;
  return node != nullptr && node->is_scalar() ? node->text : "";
}

std::vector<std::string> patterns_of(const YamlNode& node) {
  if (node.is_scalar()) return {node.text};
  std::vector<std::string> out;
  for (const YamlNode& item : node.items)
    if (item.is_scalar()) out.push_back(item.text);
  return out;
}

const YamlNode* choose_config(const YamlNode& configs, const std::string& name,
                              const std::string& card) {
  std::vector<std::string> names;
  const YamlNode* chosen = nullptr;
  for (const YamlNode& config : configs.items) {
    const std::string config_name = text_at(config, "config_name");
    names.push_back(config_name);
    const std::string preferred = text_at(config, "default");
    const bool is_default = config_name == "default" || preferred == "true" || preferred == "True";
    if (name.empty() ? is_default : config_name == name) chosen = &config;
  }
  if (chosen == nullptr && name.empty() && configs.items.size() == 1) chosen = &configs.items[0];
  if (chosen == nullptr)
    fail(cat(card,
             name.empty() ? ": the data set has several subsets, set dataset.name"
                          : cat(": no subset ", name),
             "; there are: ", list_of(names)));
  return chosen;
}

// The patterns for a split; data_files without splits are all "train".
std::vector<std::string> patterns_of_split(const YamlNode& files, const std::string& split,
                                           const std::string& card) {
  const bool by_split = files.is_list() && !files.items.empty() && files.items[0].is_map();
  if (!by_split) {
    if (split != "train") fail(cat(card, ": no split ", split, "; there is: train"));
    return patterns_of(files);
  }
  std::vector<std::string> splits;
  for (const YamlNode& entry : files.items) {
    splits.push_back(text_at(entry, "split"));
    const YamlNode* path = entry.is_map() ? entry.find("path") : nullptr;
    if (splits.back() == split && path != nullptr) return patterns_of(*path);
  }
  fail(cat(card, ": no split ", split, "; there are: ", list_of(splits)));
}

// How many parts of a path or a pattern are hidden: those of a file that matches have to be asked
// for one by one.
std::int64_t hidden_parts(const std::string& path) {
  std::int64_t parts = 0;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size() - 1) + 1;
    parts += io::is_hidden(std::string_view(path).substr(begin, end - begin)) ? 1 : 0;
    begin = end;
  }
  return parts;
}

// Of several forms (io::one_form) one.
std::vector<std::string> matching_files(const std::string& folder,
                                        const std::vector<std::string>& patterns) {
  std::vector<std::string> found;
  const bool all = std::any_of(patterns.begin(), patterns.end(),
                               [](const std::string& p) { return hidden_parts(p) > 0; });
  for (std::string& path : io::files_below(folder, all ? io::Hidden::kList : io::Hidden::kSkip)) {
    if (std::none_of(patterns.begin(), patterns.end(), [&](const std::string& p) {
          return glob_matches(p, path) && hidden_parts(p) == hidden_parts(path);
        }))
      continue;
    std::error_code unseen;
    const fs::path file = fs::path(folder) / path;
    const fs::file_status status = fs::status(file, unseen);
    if (!fs::exists(status)) fail(cat(file.string(), ": ", io::kLinkToNothing));
    if (fs::is_regular_file(status)) found.push_back(std::move(path));
  }
  // "en/*" matches a licence beside the rows too.
  if (std::any_of(found.begin(), found.end(), io::is_row_file))
    std::erase_if(found, [](const std::string& path) { return !io::is_row_file(path); });
  const io::OneForm form = io::form_to_read(folder, found);
  if (!form.others.empty())
    log_warning(cat(folder, ": the files of the split are there in two forms; left out: ",
                    io::printable_list(form.others)));
  std::vector<std::string> out;
  for (const std::string& path : form.chosen) out.push_back((fs::path(folder) / path).string());
  return out;
}

// A card comes from others: its data_dir may name the folder itself or one below it.
std::string folder_below(std::string dir, const std::string& card) {
  while (dir.starts_with("./")) dir.erase(0, 2);
  while (dir.size() > 1 && dir.ends_with('/')) dir.pop_back();
  if (dir.empty() || dir == ".") return ".";
  if (!io::is_inside(dir))
    fail(cat(card, ": data_dir \"", io::printable(dir), "\" leads out of the data set's folder"));
  return dir;
}

std::vector<std::string> files_of_card(const YamlNode& card, const std::string& file,
                                       const std::string& folder, const std::string& name,
                                       const std::string& split) {
  const YamlNode* configs = card.find("configs");
  if (configs == nullptr || !configs->is_list() || configs->items.empty()) return {};
  const YamlNode* config = choose_config(*configs, name, file);
  const std::string dir = text_at(*config, "data_dir");
  const std::string base =
      dir.empty() ? folder : (fs::path(folder) / folder_below(dir, file)).string();
  const YamlNode* data_files = config->find("data_files");
  if (data_files == nullptr) return dir.empty() ? std::vector<std::string>{} : std::vector{base};
  const std::vector<std::string> patterns = patterns_of_split(*data_files, split, file);
  std::vector<std::string> found = matching_files(base, patterns);
  if (found.empty())
    fail(cat(file, ": no file in ", base, " matches the data_files ", list_of(patterns),
             " of split ", split));
  return found;
}

std::vector<std::string> folders_in(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_directory()) out.push_back(entry.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

bool glob_matches(const std::string& pattern, const std::string& path) {
  // at[i]: the pattern so far fits the first i characters of the path.
  std::vector<bool> at(path.size() + 1, false);
  at[0] = true;
  for (std::size_t p = 0; p < pattern.size();) {
    const std::string_view rest = std::string_view(pattern).substr(p);
    const bool any = rest.starts_with("**"), folders = rest.starts_with("**/");
    const char c = rest.front();
    std::vector<bool> next(path.size() + 1, false);
    bool before = false;  // somewhere to the left
    for (std::size_t i = 0; i <= path.size(); ++i) {
      const bool one = i > 0 && at[i - 1];
      const char last = i > 0 ? path[i - 1] : '\0';
      if (folders)  // also for no folder at all
        next[i] = at[i] || (before && last == '/');
      else if (any)
        next[i] = before || at[i];
      else if (c == '*')
        next[i] = at[i] || (i > 0 && next[i - 1] && last != '/');
      else
        next[i] = one && (c == '?' ? last != '/' : last == c);
      before = before || at[i];
    }
    at = std::move(next);
    p += folders ? 3 : any ? 2 : 1;
  }
  return at[path.size()];
}

std::vector<std::string> subset_files(const std::string& folder, const std::string& name,
                                      const std::string& split) {
  const std::string card = (fs::path(folder) / "README.md").string();
  std::error_code error;
  if (fs::is_regular_file(card, error)) {
    const std::string yaml = front_matter(read_text_file(card, kCard));
    if (!yaml.empty()) {
      std::vector<std::string> files =
          files_of_card(parse_yaml(yaml, card, kCard), card, folder, name, split);
      if (!files.empty()) return files;
    }
  }
  if (name.empty()) return {folder};
  const fs::path inner = fs::path(folder) / name;
  if (!fs::is_directory(inner, error))
    fail(cat(folder, ": no subset ", name, ": neither a config_name of README.md nor a folder; ",
             "folders here: ", list_of(folders_in(folder))));
  return {inner.string()};
}

}  // namespace glmtune::train
