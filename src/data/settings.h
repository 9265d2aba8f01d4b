#pragma once
// Settings of the data sets (recipe sections dataset, validation_dataset*, packed_sequence;
// recipes name them by _target_). Defaults are the recipe language's. Paths are local: ids of the
// hub are resolved before.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "io/json.h"

namespace glmtune::data {

// What happens to a sample longer than it may be (seq_length, or the pack's size).
// kKeep: only the pack's size limits it.
enum class TooLong : std::uint8_t { kKeep, kTruncate, kDrop, kError };

// Which rows of the source are taken, and in which order: shuffled first, then sliced.
struct RowSelection {
  std::string split = "train";  // "train", "train[:1000]", "train[10%:20%]", "train[-5:]"
  std::optional<std::uint64_t> shuffle_seed;
  std::optional<std::int64_t> limit;  // at most so many rows, after the slice
};

// Rows that are refused: they end the run, or are left out and counted. Rows that are refused or
// hold nothing to train on beyond a share of all end the run in any case.
struct BadRows {
  bool skip = false;
  double ceiling = 0.5;
};

// ChatDataset.
struct ChatSettings {
  std::vector<std::string> paths;  // files (json, jsonl, also .gz; parquet) or folders of them
  RowSelection rows;
  std::optional<std::int64_t> seq_length;  // samples longer than this are too long
  TooLong too_long = TooLong::kKeep;       // recipe: truncation: true -> kTruncate
  std::string chat_template;  // text of another template than the model's; empty: the model's
  io::Value chat_template_kwargs = io::Value(io::Value::Object{});
  bool mask_reasoning_content = false;  // reasoning is shown but not trained on
  bool mask_history = false;            // only the last assistant turn is trained on
  bool mask_empty_think = false;        // think tags with nothing between them are not trained on
  bool supervise_role_header = false;   // also the tokens the prompt gives the model for free
  bool supervise_next_role = true;      // the role marker that ends an assistant turn
  bool supervise_last_stop = true;      // the last turn's stop, as a label without an input token
  bool allow_control_tokens = false;    // texts may spell control tokens
  BadRows bad_rows = {};
};

// HellaSwag: prompt = ctx, target = the right ending.
struct HellaSwagSettings {
  std::vector<std::string> paths;
  RowSelection rows;
  BadRows bad_rows = {};
};

// SQuAD: context, question, answer; through the chat template when use_chat_template.
struct SquadSettings {
  std::vector<std::string> paths;
  RowSelection rows;
  std::optional<std::int64_t> seq_length;
  TooLong too_long = TooLong::kKeep;
  std::string chat_template;  // as in ChatSettings
  bool use_chat_template = false;
  BadRows bad_rows = {};
};

// ColumnMappedTextInstructionDataset.
struct ColumnMappedSettings {
  std::vector<std::string> paths;
  RowSelection rows;
  // Role (context, question, answer) -> column name; answer is required.
  std::vector<std::pair<std::string, std::string>> column_mapping;
  bool answer_only_loss_mask = true;
  bool use_hf_chat_template = false;
  std::optional<std::int64_t> seq_length;
  TooLong too_long = TooLong::kKeep;
  BadRows bad_rows = {};
};

// MockIterableDataset: random ids, labels = the next id.
struct MockSettings {
  std::int64_t vocab_size = 1024;
  std::int64_t seq_len = 1024;
  std::int64_t num_samples = 1000000;
  std::uint64_t seed = 42;
};

// glmtune.PretokenizedDataset: a reference file (docs/recipe.md).
struct PretokenizedSettings {
  std::string path;
};

using DatasetSettings = std::variant<ChatSettings, HellaSwagSettings, SquadSettings,
                                     ColumnMappedSettings, MockSettings, PretokenizedSettings>;

enum class PackingStrategy : std::uint8_t { kThd, kNeat };

// packed_sequence, and what else decides how samples become packs.
struct PackingSettings {
  std::int64_t packed_sequence_size = 0;  // 0: one sample per pack
  PackingStrategy strategy = PackingStrategy::kThd;
  std::optional<std::int64_t> max_packs;
  bool prepacked = false;         // rows of the source are packs already (prepacked_dataset.h)
  bool drop_long_samples = true;  // false: a sample longer than the pack is an error
  bool shuffle = false;           // samples are packed in seeded order instead of the file's
  std::uint64_t seed = 42;
  std::string cache_folder = {};  // keeps tokenised packs there, by content; empty: no cache
  int threads = 0;  // for tokenising; 0: one per core. The result does not depend on it.
};

}  // namespace glmtune::data
