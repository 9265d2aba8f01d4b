#pragma once
// What a checkpoint folder holds beside config and weights: tokenizer, chat template, generation
// settings, licence, model card.
#include <string>
#include <vector>

namespace glmtune::models {

// Makes the folder and its parents.
void make_folder(const std::string& folder);

// Copies every companion file byte for byte and returns the names, sorted. Left out: config.json,
// weights of any kind and their indices, hidden files, folders (but additional_chat_templates).
std::vector<std::string> copy_companions(const std::string& from, const std::string& to);

}  // namespace glmtune::models
