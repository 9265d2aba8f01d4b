#pragma once
// The files of folders by the splits that their names say.
#include <string>
#include <vector>

namespace glmtune::data {

struct SplitFiles {
  std::vector<std::string> chosen;     // as data_files()
  std::vector<std::string> set_aside;  // of the folders: named after other splits
};

SplitFiles split_files(const std::vector<std::string>& paths, const std::string& split_name);

}  // namespace glmtune::data
