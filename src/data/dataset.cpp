#include "data/dataset.h"

#include <algorithm>

#include "base/cat.h"
#include "base/error.h"
#include "data/chat_dataset.h"
#include "data/mock_dataset.h"
#include "data/packed_dataset.h"
#include "data/prepacked_dataset.h"
#include "data/pretokenized_dataset.h"
#include "data/rows.h"
#include "data/split_files.h"
#include "data/text_dataset.h"

namespace glmtune::data {
namespace {

class Opener {
 public:
  Opener(const PackingSettings& packing, const TextTools& tools, const Progress& progress)
      : packing_(packing), tools_(tools), progress_(progress) {}

  std::unique_ptr<PackSource> operator()(ChatSettings settings) const {
    limit(settings.seq_length, settings.too_long);
    return packed(std::make_unique<ChatSamples>(settings, tools_));
  }

  std::unique_ptr<PackSource> operator()(const HellaSwagSettings& settings) const {
    return packed(
        std::make_unique<PromptSamples>(PromptSamples::Settings{.paths = settings.paths,
                                                                .rows = settings.rows,
                                                                .seq_length = {},
                                                                .bad_rows = settings.bad_rows},
                                        hellaswag_reader(), tools_));
  }

  std::unique_ptr<PackSource> operator()(const SquadSettings& settings) const {
    const bool has_template = tools_.chat_template != nullptr || !settings.chat_template.empty();
    if (settings.use_chat_template && has_template) {
      ChatSettings chat;
      chat.chat_template = settings.chat_template;
      return conversations(settings, squad_reader(), chat);
    }
    return prompts(settings, squad_reader(), true);
  }

  std::unique_ptr<PackSource> operator()(const ColumnMappedSettings& settings) const {
    if (!settings.use_hf_chat_template) {
      return prompts(settings, column_reader(settings), settings.answer_only_loss_mask);
    }
    check(settings.answer_only_loss_mask,
          "dataset.answer_only_loss_mask: false cannot be had with use_hf_chat_template: true; "
          "conversations are trained on the answer only");
    return conversations(settings, column_reader(settings), {});
  }

  std::unique_ptr<PackSource> operator()(const MockSettings& settings) const {
    not_packed("mock");
    return std::make_unique<MockDataset>(settings);
  }

  std::unique_ptr<PackSource> operator()(const PretokenizedSettings& settings) const {
    not_packed("pretokenised");
    return std::make_unique<PretokenizedDataset>(settings, tools_.vocab_size);
  }

 private:
  // Samples to be cut are cut where the pack ends if that comes first, instead of being dropped;
  // where too long a sample is an error, one longer than a pack is too.
  void limit(std::optional<std::int64_t>& seq_length, TooLong policy) const {
    const bool limits = policy == TooLong::kTruncate || policy == TooLong::kError;
    if (!limits || packing_.packed_sequence_size <= 0) return;
    seq_length =
        std::min(seq_length.value_or(packing_.packed_sequence_size), packing_.packed_sequence_size);
  }

  std::unique_ptr<PackSource> packed(std::unique_ptr<SampleMaker> samples) const {
    return std::make_unique<PackedDataset>(std::move(samples), packing_, tools_.vocab_size,
                                           progress_);
  }

  template <class Settings>
  std::unique_ptr<PackSource> prompts(const Settings& from, PromptReader reader,
                                      bool answer_only) const {
    PromptSamples::Settings settings{.paths = from.paths,
                                     .rows = from.rows,
                                     .seq_length = from.seq_length,
                                     .too_long = from.too_long,
                                     .answer_only = answer_only,
                                     .end_with_eos = true,
                                     .bad_rows = from.bad_rows};
    limit(settings.seq_length, settings.too_long);
    return packed(std::make_unique<PromptSamples>(settings, std::move(reader), tools_));
  }

  template <class Settings>
  std::unique_ptr<PackSource> conversations(const Settings& from, PromptReader reader,
                                            ChatSettings settings) const {
    settings.paths = from.paths;
    settings.rows = from.rows;
    settings.seq_length = from.seq_length;
    settings.too_long = from.too_long;
    settings.bad_rows = from.bad_rows;
    limit(settings.seq_length, settings.too_long);
    const std::string kind = "chat of " + reader.kind;
    const auto read = [read = std::move(reader.read)](const io::Value& row,
                                                      const std::string& where,
                                                      const ChatRowOptions& options) {
      return as_conversation(read({row, where, options.unread_columns}));
    };
    return packed(std::make_unique<ChatSamples>(settings, tools_, read, reader.columns, kind));
  }

  void not_packed(const char* kind) const {
    if (packing_.packed_sequence_size > 0) {
      fail(cat("packed_sequence.packed_sequence_size ", packing_.packed_sequence_size,
               ": rows of a ", kind, " data set are packs already; set it to 0"));
    }
  }

  const PackingSettings& packing_;
  const TextTools& tools_;
  const Progress& progress_;
};

}  // namespace

std::unique_ptr<PackSource> open_dataset(const DatasetSettings& settings,
                                         const PackingSettings& packing, const TextTools& tools,
                                         const Progress& progress) {
  std::visit(
      [&](const auto& kind) {
        if constexpr (requires { kind.paths; }) {
          const std::string repeated = files_repeated(kind.paths, name_of_split(kind.rows.split));
          if (!repeated.empty() && progress.notice) progress.notice(repeated);
        }
      },
      settings);
  if (packing.prepacked) {
    std::unique_ptr<PackSource> packs = std::visit(
        [&](const auto& kind) -> std::unique_ptr<PackSource> {
          if constexpr (requires { kind.paths; })
            return std::make_unique<PrepackedDataset>(kind.paths, kind.rows, packing,
                                                      tools.vocab_size);
          return nullptr;  // rows of the other kinds are packs in any case
        },
        settings);
    if (packs != nullptr) return packs;
  }
  return std::visit(Opener(packing, tools, progress), settings);
}

}  // namespace glmtune::data
