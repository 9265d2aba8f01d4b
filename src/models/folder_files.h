#pragma once
// What a checkpoint folder holds beside config and weights: tokenizer, chat template, generation
// settings, licence, model card.
#include <memory>
#include <string>
#include <vector>

#include "io/files.h"

namespace glmtune::models {

// Makes the folder and its parents.
void make_folder(const std::string& folder);

// The companion files of a folder as they are when it is read: what becomes of them later does not
// reach write(). Left out: config.json, weights of any kind and their indices, hidden files,
// folders (but additional_chat_templates).
class Companions {
 public:
  // Error for a file that cannot be read.
  static Companions read(const std::string& folder);

  // Writes every file byte for byte and returns the names, sorted.
  std::vector<std::string> write(const std::string& folder) const;

 private:
  struct File {
    std::string name;  // below the folder
    std::string bytes;
    std::shared_ptr<const io::ReadFile> large;  // kept open instead of in memory
  };
  void read_files(const std::string& folder, const std::string& prefix);

  std::vector<File> files_;
};

}  // namespace glmtune::models
