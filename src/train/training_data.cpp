#include "train/training_data.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/cat.h"
#include "data/rows.h"
#include "io/folder_files.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "train/dataset_card.h"
#include "train/named_errors.h"

namespace glmtune::train {
namespace {

bool has_template(const std::string& folder) {
  std::error_code ec;
  return std::filesystem::exists(folder + "/chat_template.jinja", ec) ||
         std::filesystem::exists(folder + "/tokenizer_config.json", ec);
}

// Of an error while rows are read: what it says of the folder of packs begins with its path.
std::string place_of(const DatasetEntry& entry, std::string_view problem) {
  const std::string& folder = entry.packing.cache_folder;
  const bool is_of_cache =
      !folder.empty() &&
      (problem.starts_with(folder + ": ") ||
       (problem.starts_with(folder + "/") && problem.find(".packs") != std::string_view::npos));
  return is_of_cache ? "packed_sequence.cache_dir" : entry.place;
}

}  // namespace

DatasetEntry with_subset_files(DatasetEntry entry) {
  const auto files_of = [&](const std::string& given, const std::string& split) {
    const std::string path = io::without_last_slash(given);
    std::error_code ec;
    if (std::filesystem::is_directory(path, ec))
      return subset_files(path, entry.subset, data::name_of_split(split));
    if (!entry.subset.empty())
      fail(cat("name ", entry.subset, ": ", path, " is no folder that could hold subsets"));
    return std::vector<std::string>{path};
  };
  const auto replace = [&](auto& settings) {
    if constexpr (requires { settings.paths; }) {
      std::vector<std::string> files;
      for (const std::string& path : settings.paths)
        for (std::string& file : files_of(path, settings.rows.split))
          files.push_back(std::move(file));
      settings.paths = std::move(files);
      (void)data::data_files(settings.paths, data::name_of_split(settings.rows.split));
    }
  };
  named(entry.sources_place, [&] { std::visit(replace, entry.settings); });
  entry.subset.clear();
  return entry;
}

bool reads_text(const DatasetEntry& entry) {
  return !entry.packing.prepacked && !std::holds_alternative<data::MockSettings>(entry.settings) &&
         !std::holds_alternative<data::PretokenizedSettings>(entry.settings);
}

data::TextTools TrainingData::tools(const DatasetEntry& entry) {
  if (!reads_text(entry)) return {.tokenizer = {}, .chat_template = {}, .vocab_size = vocab_size_};
  const std::string& folder = entry.tokenizer.empty() ? model_folder_ : entry.tokenizer;
  auto it = std::find_if(loaded_.begin(), loaded_.end(),
                         [&](const auto& l) { return l.first == folder; });
  if (it == loaded_.end()) {
    data::TextTools fresh;
    fresh.vocab_size = vocab_size_;
    fresh.tokenizer_folder = folder;
    fresh.tokenizer = std::make_shared<text::Tokenizer>(text::Tokenizer::load(folder));
    it = loaded_.insert(it, {folder, std::move(fresh)});
  }
  // A data set with a template of its own does without the checkpoint's.
  const auto* chat = std::get_if<data::ChatSettings>(&entry.settings);
  const bool has_own = chat != nullptr && !chat->chat_template.empty();
  if (!has_own && it->second.chat_template == nullptr && has_template(folder))
    it->second.chat_template =
        std::make_shared<text::ChatTemplate>(text::ChatTemplate::load(folder));
  return it->second;
}

std::unique_ptr<data::PackSource> TrainingData::open_files(const DatasetEntry& entry,
                                                           const data::Progress& progress) {
  const data::TextTools found = named(entry.tokenizer.empty() ? entry.place : entry.tokenizer_place,
                                      [&] { return tools(entry); });
  data::Progress of_entry = progress;
  if (progress.notice)
    of_entry.notice = [&](const std::string& text) { progress.notice(cat(entry.key, ": ", text)); };
  try {
    return data::open_dataset(entry.settings, entry.packing, found, of_entry);
  } catch (const MachineError& e) {
    fail_machine(cat(place_of(entry, e.what()), ": ", e.what()));
  } catch (const Error& e) {
    fail(cat(place_of(entry, e.what()), ": ", e.what()));
  }
}

}  // namespace glmtune::train
