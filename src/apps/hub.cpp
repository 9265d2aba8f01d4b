#include "apps/hub.h"

#include <filesystem>

#include "apps/launch.h"

namespace glmtune::apps {

io::HubCache local_hub_cache() {
  return io::hub_cache([](const char* name) { return environment(name); });
}

std::string local_model(const std::string& path_or_id) {
  std::error_code error;
  if (std::filesystem::exists(path_or_id, error) || !io::is_hub_id(path_or_id)) return path_or_id;
  return io::resolve_repo(path_or_id, io::RepoKind::kModel, local_hub_cache()).folder;
}

}  // namespace glmtune::apps
