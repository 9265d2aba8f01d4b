// The first rows of a recipe's data, read, rendered, tokenised and masked as a run does it.
#include <algorithm>
#include <filesystem>
#include <map>

#include "apps/check_report.h"
#include "apps/hub.h"
#include "base/cat.h"
#include "base/error.h"
#include "data/chat_row.h"
#include "data/pack_sampler.h"
#include "data/rows.h"
#include "io/files.h"
#include "io/json.h"
#include "train/checkpoint_folder.h"
#include "train/log.h"
#include "train/named_errors.h"
#include "train/run_inputs.h"
#include "train/step_scheduler.h"
#include "train/training_data.h"

namespace glmtune::apps {
namespace {

namespace fs = std::filesystem;

// Plain files are looked through for lines, the others unpacked into memory: beyond these sizes
// that takes longer than a check should.
constexpr std::uintmax_t kMostPlainBytes = std::uintmax_t{4} << 30;
constexpr std::uintmax_t kMostPackedBytes = std::uintmax_t{256} << 20;

// The limit of the rows and the policy for bad ones, where the kind of data has them.
struct RowSettings {
  data::RowSelection* rows = nullptr;
  const std::vector<std::string>* paths = nullptr;
  data::BadRows* bad_rows = nullptr;
};

RowSettings row_settings(data::DatasetSettings& settings) {
  return std::visit(
      [](auto& s) {
        RowSettings out;
        if constexpr (requires { s.rows; }) out.rows = &s.rows;
        if constexpr (requires { s.paths; }) out.paths = &s.paths;
        if constexpr (requires { s.bad_rows; }) out.bad_rows = &s.bad_rows;
        return out;
      },
      settings);
}

// Why rows are left unread; empty when they can be read.
std::string too_large(const std::vector<std::string>& paths, const data::RowSelection& rows) {
  std::uintmax_t plain = 0, packed = 0;
  for (const std::string& file : data::data_files(paths, data::name_of_split(rows.split))) {
    const bool is_plain = file.ends_with(".jsonl") || file.ends_with(".json");
    (is_plain ? plain : packed) += fs::file_size(file);
  }
  if (plain <= kMostPlainBytes && packed <= kMostPackedBytes) return "";
  return cat(io::human_bytes(plain + packed), " of files; check reads up to ",
             io::human_bytes(kMostPlainBytes), " of json and jsonl, ",
             io::human_bytes(kMostPackedBytes), " of packed files and parquet");
}

// What can be said of chat rows without a tokenizer: whether they are chats.
ReadRows read_format(const train::DatasetEntry& entry, const data::ChatSettings& chat) {
  ReadRows out;
  out.key = entry.key;
  const data::Rows rows = train::named(entry.sources_place, [&] {
    return data::Rows(chat.paths, chat.rows, {.columns = data::chat_columns()});
  });
  out.summary.rows = rows.size();
  std::map<std::int64_t, std::string> problems;  // in the order of the files
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    try {
      const io::Value row = rows.row(i);
      rows.check_integers(i);
      data::read_chat_row(
          row, rows.where(i),
          {.columnar = rows.is_columnar(i), .unread_columns = rows.unread_columns(i)});
    } catch (const MachineError&) {
      throw;
    } catch (const Error& e) {
      data::add_count(out.summary.dropped, "bad row");
      problems.emplace(rows.in_files(i), e.what());
    }
  }
  for (auto& [place, problem] : problems)
    if (out.summary.problems.size() < 5) out.summary.problems.push_back(std::move(problem));
  return out;
}

// Rows in full: those that a run refuses are collected, and everything else it complains of is
// thrown as the run would.
ReadRows read_samples(const train::DatasetEntry& recipes, train::DatasetEntry entry,
                      train::TrainingData& data) {
  ReadRows out;
  out.key = entry.key;
  const auto source = [&] {
    try {
      return data.open_files(entry, {.rows = {}, .notice = train::log_warning});
    } catch (const MachineError&) {
      throw;
    } catch (const Error&) {
      // With the recipe's own policy the first bad row is named.
      RowSettings own = row_settings(entry.settings);
      train::DatasetEntry strict = recipes;
      if (own.rows != nullptr) *row_settings(strict.settings).rows = *own.rows;
      strict.packing.cache_folder.clear();
      data.open(strict, {});
      throw;
    }
  }();
  out.summary = source->summary();
  out.packs = source->size();
  out.pack_tokens = source->max_tokens();
  out.pack_documents = source->most_documents();
  return out;
}

void refuse_bad_rows(const ReadRows& read) {
  std::int64_t bad = 0;
  for (const data::Count& c : read.summary.dropped)
    if (c.what.starts_with("bad row")) bad += c.count;
  std::string lines;
  for (const std::string& problem : read.summary.problems)
    lines += cat(lines.empty() ? "" : "\n", read.key, ": ", problem);
  const auto more = bad - static_cast<std::int64_t>(read.summary.problems.size());
  if (more > 0) lines += cat("\n", read.key, ": ... and ", more, " more bad rows");
  fail(lines);
}

class Reader {
 public:
  explicit Reader(CheckReport& report) : report_(report) {}

  void read(const train::DatasetEntry& recipes) {
    train::DatasetEntry entry = recipes;
    if (std::holds_alternative<data::MockSettings>(entry.settings)) return;
    std::string tokenizer;
    try {
      use_local_data(entry);
    } catch (const MachineError&) {
      throw;
    } catch (const Error& e) {
      for (const DataFacts& facts : report_.data)
        if (facts.key == entry.key && facts.found == kNotHere) {
          report_.unchecked.push_back(cat(entry.key, ": its rows"));
          return;
        }
      if (!recipes.tokenizer.empty()) require_path(recipes.tokenizer_place, recipes.tokenizer);
      report_.reasons.emplace_back(e.what());
      report_.unchecked.push_back(cat(entry.key, ": its rows"));
      return;
    }
    entry = train::with_subset_files(std::move(entry));
    const RowSettings settings = row_settings(entry.settings);
    bool cut = false, strict = false;
    if (settings.rows != nullptr) {
      const std::string why = train::named(
          entry.sources_place, [&] { return too_large(*settings.paths, *settings.rows); });
      if (!why.empty()) {
        report_.unchecked.push_back(cat(entry.key, ": its rows (", why, ")"));
        return;
      }
      cut = settings.rows->limit.value_or(kCheckedRows + 1) > kCheckedRows;
      if (cut) settings.rows->limit = kCheckedRows;
    }
    if (settings.bad_rows != nullptr && !settings.bad_rows->skip) {
      strict = true;
      *settings.bad_rows = {.skip = true, .ceiling = 1};
    }
    entry.packing.cache_folder.clear();
    read_here(entry, recipes, cut, strict);
  }

 private:
  void read_here(const train::DatasetEntry& entry, const train::DatasetEntry& recipes, bool cut,
                 bool strict) {
    const std::string folder = entry.tokenizer.empty() ? model_folder() : entry.tokenizer;
    ReadRows read;
    if (train::reads_text(entry) && folder.empty()) {
      const auto* chat = std::get_if<data::ChatSettings>(&entry.settings);
      report_.unchecked.push_back(cat(
          entry.key,
          chat != nullptr ? ": how its rows render and what is trained on of them" : ": its rows",
          " (no tokenizer on this machine)"));
      if (chat == nullptr) return;
      read = read_format(entry, *chat);
    } else {
      train::DatasetEntry own = recipes;
      use_local_data(own);
      train::TrainingData data(folder, report_.model ? report_.model->config.vocab_size : 0);
      read = read_samples(own, entry, data);
    }
    if (strict && !read.summary.problems.empty()) refuse_bad_rows(read);
    read.all = !cut || read.summary.rows < kCheckedRows;
    if (!read.all) read.packs.reset();
    if (!read.all)
      report_.unchecked.push_back(cat(entry.key, ": rows after the first ", kCheckedRows));
    report_.rows.push_back(std::move(read));
  }

  // Where the model's tokenizer is; empty when it is not on this machine.
  std::string model_folder() const {
    const std::string& id = report_.file.recipe.model.pretrained_model_name_or_path;
    std::error_code error;
    fs::path folder = id;
    if (!fs::exists(folder, error)) {
      try {
        folder = local_model(id, report_.file.recipe.model.revision, io::RepoKind::kTokenizer);
      } catch (const MachineError&) {
        throw;
      } catch (const Error&) {
        return "";
      }
    }
    if (!fs::is_directory(folder, error)) folder = folder.parent_path();
    return fs::exists(folder / "tokenizer.json", error) ? folder.string() : "";
  }

  CheckReport& report_;
};

// Whether there may be steps that a run of the recipe need not do again.
bool goes_on(const train::Recipe& recipe) {
  const train::CheckpointSettings& c = recipe.checkpoint;
  return c.enabled && (!c.restore_from.empty() ||
                       !train::CheckpointFolder(c.checkpoint_dir).published().empty());
}

}  // namespace

void read_rows(CheckReport& report) {
  Reader reader(report);
  reader.read(report.file.recipe.dataset);
  for (const train::DatasetEntry& entry : report.file.recipe.validation_datasets)
    reader.read(entry);
}

void check_schedule(CheckReport& report) {
  const train::Recipe& recipe = report.file.recipe;
  if (!report.plan.conflicts.empty()) return;
  const bool read = !report.rows.empty() && report.rows.front().key == recipe.dataset.key;
  std::optional<std::int64_t> steps_per_epoch;
  if (read && report.rows.front().packs) {
    steps_per_epoch =
        data::PackSampler(report.rows.front().packs,
                          {.global_batch_size = recipe.step_scheduler.global_batch_size,
                           .seed = recipe.seed,
                           .shuffle = recipe.dataloader.shuffle,
                           .drop_last = recipe.dataloader.drop_last})
            .steps_per_epoch();
  }
  // Without the data only max_steps bounds a run; with it, num_epochs may end it earlier.
  if (!steps_per_epoch && !recipe.step_scheduler.max_steps) return;
  const std::int64_t steps =
      train::StepScheduler(recipe.step_scheduler, report.plan.dp, steps_per_epoch).total_steps();
  if (steps_per_epoch) report.steps = steps;
  if (steps == 0) return;
  try {
    train::check_rates(recipe, steps);
  } catch (const Error&) {
    if (!goes_on(recipe)) throw;
    report.unchecked.push_back(cat("lr_scheduler against the steps of a run that goes on in ",
                                   recipe.checkpoint.checkpoint_dir,
                                   " (it does not fit one that begins anew)"));
  }
}

}  // namespace glmtune::apps
