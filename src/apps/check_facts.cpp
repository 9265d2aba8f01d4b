// Where a recipe's model and data are, and how large.
#include <filesystem>

#include "apps/check_report.h"
#include "apps/hub.h"
#include "base/cat.h"
#include "base/error.h"
#include "io/exported_folder.h"
#include "io/files.h"
#include "models/known_configs.h"
#include "train/named_errors.h"

namespace glmtune::apps {
namespace {

namespace fs = std::filesystem;

ModelFacts facts_of(models::GlmConfig config, std::string from) {
  ModelFacts out;
  out.from = std::move(from);
  for (const models::TensorSpec& tensor : models::expected_tensors(config)) {
    const std::int64_t n = tensor.count();
    if (tensor.pass_through) {
      out.mtp += n;
      continue;
    }
    out.parameters += n;
    const bool routed = tensor.component == "experts";
    if (routed) out.routed_experts += n;
    if (tensor.component == "embedding" && !config.tie_word_embeddings) continue;
    out.active_per_token += routed ? n / config.n_routed_experts * config.num_experts_per_tok : n;
  }
  out.config = std::move(config);
  return out;
}

// "12.3 MiB" of a file, "12.3 MiB in 4 files" of a folder.
std::string local_size(const std::string& path, const std::string& place) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    const std::uintmax_t bytes = fs::file_size(path, error);
    if (error) fail(cat(place, ": ", path, ": ", error.message(), "; expected a file or a folder"));
    return io::human_bytes(bytes);
  }
  std::uintmax_t bytes = 0;
  std::size_t files = 0;
  fs::recursive_directory_iterator at(path, fs::directory_options::skip_permission_denied, error);
  // What cannot be looked at is left out of the sum.
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    std::error_code unseen;
    if (!at->is_regular_file(unseen) || unseen) continue;
    const std::uintmax_t size = at->file_size(unseen);
    if (unseen) continue;
    bytes += size;
    ++files;
  }
  if (error && files == 0) fail(cat(place, ": ", path, ": cannot be listed: ", error.message()));
  return cat(io::human_bytes(bytes), " in ", files, " files");
}

void find_source(DataFacts& facts, const std::string& revision) {
  std::error_code error;
  if (fs::exists(facts.source, error)) {
    facts.found = local_size(facts.source, facts.place);
    return;
  }
  require_path(facts.place, facts.source);
  try {
    const io::ResolvedRepo repo =
        io::resolve_repo(facts.source, io::RepoKind::kDataset, local_hub_cache(), revision);
    facts.found = cat("in the local cache: ", repo.folder,
                      repo.suspected.empty() ? "" : cat(", which seems to lack ", repo.suspected));
  } catch (const MachineError&) {
    throw;
  } catch (const Error& e) {
    facts.found = kNotHere;
    facts.why = e.what();
  }
}

std::optional<ModelFacts> found_facts(const train::ModelSettings& model) {
  const std::string& id = model.pretrained_model_name_or_path;
  std::error_code error;
  if (fs::exists(id, error)) {
    const fs::path file = fs::is_directory(id) ? fs::path(id) / "config.json" : fs::path(id);
    if (!fs::exists(file, error))
      fail(cat(id, " has no config.json", io::exported_folder_hint(id)));
    return facts_of(models::read_glm_config(file.string()), file.string());
  }
  if (const std::string other = models::other_architecture(id); !other.empty())
    fail(cat(id, ": ", other));
  if (is_path(id)) fail(no_such_path(id));
  std::string folder;
  try {
    folder = local_model(id, model.revision, io::RepoKind::kConfig);
  } catch (const MachineError&) {
    throw;
  } catch (const Error&) {  // the verdict says why
  }
  if (!folder.empty())
    return facts_of(models::read_glm_config(folder + "/config.json"), folder + "/config.json");
  // Good enough to plan with; a run reads the model's own.
  if (const auto known = models::known_config(id))
    return facts_of(models::parse_glm_config(*known, id), "facts of the released model");
  return std::nullopt;
}

}  // namespace

std::optional<ModelFacts> model_facts(const train::Recipe& recipe) {
  return train::named(recipe.model.place, [&] { return found_facts(recipe.model); });
}

std::vector<DataFacts> data_facts(const train::Recipe& recipe) {
  std::vector<DataFacts> out;
  const auto add = [&](const train::DatasetEntry& entry) {
    for (const std::string& source : entry.sources) {
      out.push_back({entry.key, entry.target, source, entry.sources_place, "", ""});
      find_source(out.back(), entry.revision);
    }
    if (entry.sources.empty() && !std::holds_alternative<data::MockSettings>(entry.settings))
      fail(cat(entry.place, ": no path is given"));
    if (entry.sources.empty())
      out.push_back({entry.key, entry.target, "made up", entry.place, "", ""});
  };
  add(recipe.dataset);
  for (const train::DatasetEntry& entry : recipe.validation_datasets) add(entry);
  return out;
}

}  // namespace glmtune::apps
