#pragma once
// From a data set's settings to packs: the one entry point of this layer.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "data/pack.h"
#include "data/settings.h"

namespace glmtune::text {
class ChatTemplate;
class Tokenizer;
}  // namespace glmtune::text

namespace glmtune::data {

// What turns texts into ids; all members are absent or unused for pretokenised and mock data.
struct TextTools {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const text::ChatTemplate> chat_template;
  std::int64_t vocab_size = 0;  // ids at or above it are an error; 0: not checked
  // Where the tokenizer was loaded from: its files are part of a cache's key.
  std::string tokenizer_folder = {};
};

// What is told meanwhile, from one thread.
struct Progress {
  // Now and then while rows are tokenised: rows done, rows in all.
  std::function<void(std::int64_t, std::int64_t)> rows = {};
  // That another process is waited for, say.
  std::function<void(const std::string&)> notice = {};
};

// Reads, checks, renders, tokenises, masks and packs. Throws Error naming file, line and reason for
// bad rows, and when nothing to train on is left.
std::unique_ptr<PackSource> open_dataset(const DatasetSettings& settings,
                                         const PackingSettings& packing, const TextTools& tools,
                                         const Progress& progress = {});

}  // namespace glmtune::data
