#include "apps/hub.h"

#include <filesystem>

#include "apps/launch.h"
#include "base/cat.h"
#include "base/error.h"

namespace glmtune::apps {

io::HubCache local_hub_cache() {
  return io::hub_cache([](const char* name) { return environment(name); });
}

std::string local_model(const std::string& path_or_id) {
  std::error_code error;
  if (std::filesystem::exists(path_or_id, error) || !io::is_hub_id(path_or_id)) return path_or_id;
  return io::resolve_repo(path_or_id, io::RepoKind::kModel, local_hub_cache()).folder;
}

namespace {

std::string local_data(const std::string& path_or_id) {
  std::error_code error;
  if (std::filesystem::exists(path_or_id, error) || !io::is_hub_id(path_or_id)) return path_or_id;
  return io::resolve_repo(path_or_id, io::RepoKind::kDataset, local_hub_cache()).folder;
}

void use_local(train::DatasetEntry& entry) {
  if (!entry.tokenizer.empty()) entry.tokenizer = local_model(entry.tokenizer);
  std::visit(
      [](auto& settings) {
        if constexpr (requires { settings.paths; })
          for (std::string& path : settings.paths) path = local_data(path);
      },
      entry.settings);
}

}  // namespace

void use_local_data(train::Recipe& recipe) {
  const auto use = [](train::DatasetEntry& entry) {
    try {
      use_local(entry);
    } catch (const MachineError&) {
      throw;
    } catch (const Error& e) {
      fail(cat(entry.key, ": ", e.what()));
    }
  };
  use(recipe.dataset);
  for (train::DatasetEntry& entry : recipe.validation_datasets) use(entry);
}

}  // namespace glmtune::apps
