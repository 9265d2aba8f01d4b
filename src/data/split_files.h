#pragma once
// The files of folders by the splits that their names say.
#include <string>
#include <vector>

#include "data/sample.h"
#include "io/row_files.h"

namespace glmtune::data {

using io::names_split;

struct SplitFiles {
  std::vector<std::string> chosen;      // as data_files()
  std::vector<std::string> set_aside;   // of the folders: named after other splits
  std::vector<std::string> other_form;  // of the split and a second form (io::one_form)
};

// Hidden files (io::is_hidden) are not looked at. Links to folders are followed; a file that two
// of them lead to is there once. Error for a file of rows that is a link to nothing.
SplitFiles split_files(const std::vector<std::string>& paths, const std::string& split_name);

// "" or what to say where files that the paths lead to are the same one: named twice, in a folder
// that is named too, through links. Files of the hub's cache whose bytes are equal are two files.
std::string files_repeated(const std::vector<std::string>& paths, const std::string& split_name);

// What a data set's summary says of the files that are not read.
std::vector<Count> files_left_out(const std::vector<std::string>& paths,
                                  const std::string& split_name);

}  // namespace glmtune::data
