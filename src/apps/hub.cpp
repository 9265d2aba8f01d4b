#include "apps/hub.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>

#include "apps/launch.h"
#include "base/cat.h"
#include "base/error.h"
#include "io/files.h"
#include "io/folder_files.h"
#include "io/hub_download.h"
#include "train/log.h"
#include "train/named_errors.h"
#include "train/progress.h"
#include "train/training_data.h"

namespace glmtune::apps {

namespace fs = std::filesystem;

io::HubCache local_hub_cache() {
  return io::hub_cache([](const char* name) { return environment(name); });
}

bool is_path(const std::string& text) {
  for (const char* start : {"/", "./", "../", "~"})
    if (text.starts_with(start)) return true;
  for (const char* end : {".json", ".jsonl", ".parquet", ".gz", ".zst", ".safetensors", ".yaml"})
    if (text.ends_with(end)) return true;
  if (!io::is_hub_id(text)) return true;
  std::error_code error;
  if (fs::is_symlink(text, error)) return true;
  const std::size_t slash = text.find('/');
  return slash != std::string::npos && fs::is_directory(text.substr(0, slash), error);
}

std::string no_such_path(const std::string& path) {
  std::string text = io::unreachable(path);
  if (!text.ends_with(": no such file or folder")) return text;
  if (path.starts_with('~')) return text + " (~ is not expanded here: write the path in full)";
  std::error_code error;
  const fs::path here = fs::current_path(error);
  if (!error && fs::path(path).is_relative())
    text += cat(" (relative to the working directory ", here.string(), ")");
  return text;
}

void require_path(const std::string& place, const std::string& path_or_id) {
  std::error_code error;
  if (!fs::exists(path_or_id, error) && is_path(path_or_id))
    fail(cat(place, ": ", no_such_path(path_or_id)));
}

namespace {

// A line at a terminal, else a line of the log now and then.
class DownloadReport {
 public:
  DownloadReport(std::string id, const io::HubCache& hub) : id_(std::move(id)), hub_(hub) {}

  void show(const io::FetchProgress& p) {
    const auto now = std::chrono::steady_clock::now();
    if (!begun_) {
      begun_ = logged_ = now;
      bytes_at_start_ = p.bytes_done;
      train::log_info(cat("fetching ", id_, " from ", hub_.endpoint, " into ", hub_.root));
    }
    const double seconds = std::chrono::duration<double>(now - *begun_).count();
    const auto arrived =
        static_cast<double>(p.bytes_done - std::min(p.bytes_done, bytes_at_start_));
    const std::string speed =
        seconds > 0 ? io::human_bytes(static_cast<std::uint64_t>(arrived / seconds)) + "/s" : "";
    const std::string figures = cat("MiB  ", p.files_done, "/", p.files, " files  ", speed);
    if (isatty(STDOUT_FILENO) == 1) {
      const auto mib = [](std::uint64_t bytes) { return static_cast<std::int64_t>(bytes >> 20U); };
      if (!line_) line_.emplace(cat("Fetching ", id_), 0, mib(p.bytes), true);
      line_->set_total(mib(p.bytes));
      line_->update(mib(p.bytes_done), figures);
    } else if (now - logged_ > std::chrono::seconds(30)) {
      logged_ = now;
      train::log_info(cat("fetching ", id_, ": ", io::human_bytes(p.bytes_done), " of ",
                          io::human_bytes(p.bytes), ", ", p.files_done, " of ", p.files, " files, ",
                          speed));
    }
  }

 private:
  std::string id_;
  const io::HubCache& hub_;
  std::optional<train::Progress> line_;
  std::optional<std::chrono::steady_clock::time_point> begun_;
  std::chrono::steady_clock::time_point logged_;
  std::uint64_t bytes_at_start_ = 0;
};

std::string fetched(const std::string& path_or_id, io::RepoKind kind, const std::string& revision) {
  std::error_code error;
  if (fs::exists(path_or_id, error)) return path_or_id;
  if (is_path(path_or_id)) fail(no_such_path(path_or_id));
  const io::HubCache hub = local_hub_cache();
  DownloadReport report(path_or_id, hub);
  io::FetchOptions options;
  options.progress = [&](const io::FetchProgress& p) { report.show(p); };
  options.notice = train::log_warning;
  return io::fetch_repo(path_or_id, kind, hub, options, revision).folder;
}

std::string local(const std::string& path_or_id, io::RepoKind kind, const std::string& revision) {
  std::error_code error;
  if (fs::exists(path_or_id, error)) return path_or_id;
  if (is_path(path_or_id)) fail(no_such_path(path_or_id));
  return io::resolve_repo(path_or_id, kind, local_hub_cache(), revision).folder;
}

// Ids of the data and their tokenizer become what `find` makes of them.
void replace_ids(train::DatasetEntry& entry,
                 std::string (*find)(const std::string&, io::RepoKind, const std::string&)) {
  if (!entry.tokenizer.empty())
    entry.tokenizer = train::named(entry.tokenizer_place, [&] {
      return find(entry.tokenizer, io::RepoKind::kTokenizer, entry.tokenizer_revision);
    });
  std::visit(
      [&](auto& settings) {
        if constexpr (requires { settings.paths; }) {
          for (std::string& path : settings.paths)
            path = train::named(entry.sources_place,
                                [&] { return find(path, io::RepoKind::kDataset, entry.revision); });
        }
      },
      entry.settings);
}

}  // namespace

std::string local_model(const std::string& path_or_id, const std::string& revision,
                        io::RepoKind wanted) {
  return local(path_or_id, wanted, revision);
}

std::string fetched_model(const std::string& path_or_id, const std::string& revision) {
  return fetched(path_or_id, io::RepoKind::kModel, revision);
}

std::string fetched_tokenizer(const std::string& path_or_id, const std::string& revision) {
  return fetched(path_or_id, io::RepoKind::kTokenizer, revision);
}

io::RepoKind wanted_of_model(const train::Recipe& recipe) {
  if (!recipe.model.from_config) return io::RepoKind::kModel;
  const auto tokenized = [](const train::DatasetEntry& entry) {
    return train::reads_text(entry) && entry.tokenizer.empty();
  };
  const auto& validation = recipe.validation_datasets;
  const bool needs_tokenizer =
      tokenized(recipe.dataset) || std::any_of(validation.begin(), validation.end(), tokenized);
  return needs_tokenizer ? io::RepoKind::kTokenizer : io::RepoKind::kConfig;
}

void fetch_model(const train::Recipe& recipe) {
  train::named(recipe.model.place, [&] {
    return fetched(recipe.model.pretrained_model_name_or_path, wanted_of_model(recipe),
                   recipe.model.revision);
  });
}

void fetch_data(train::Recipe& recipe) {
  replace_ids(recipe.dataset, fetched);
  for (train::DatasetEntry& entry : recipe.validation_datasets) replace_ids(entry, fetched);
}

void use_local_data(train::DatasetEntry& entry) {
  replace_ids(entry, local);
}

}  // namespace glmtune::apps
