// Developer tool behind tools/compare_hub.py: fetches one repository as the program does.
//   hub_driver model|tokenizer|dataset ID [REVISION]     prints the snapshot's folder
#include <cstdlib>
#include <iostream>
#include <string>

#include "io/hub_download.h"

using namespace glmtune;

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "hub_driver model|tokenizer|dataset ID [REVISION]\n";
    return 1;
  }
  const std::string kind = argv[1];
  const auto environment = [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  try {
    std::cout << io::fetch_repo(argv[2],
                                kind == "dataset"     ? io::RepoKind::kDataset
                                : kind == "tokenizer" ? io::RepoKind::kTokenizer
                                                      : io::RepoKind::kModel,
                                io::hub_cache(environment), {}, argc > 3 ? argv[3] : "main")
                     .folder
              << "\n";
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
  return 0;
}
