#pragma once
// Data sets that are not conversations: HellaSwag, SQuAD and instruction data with mapped columns.
// A row is a prompt that is not trained on and an answer that is, or, rendered by a chat template,
// a conversation: context as system, question as user, answer as assistant.
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/chat_row.h"
#include "data/dataset.h"
#include "data/rows.h"
#include "data/sample.h"
#include "data/settings.h"

namespace glmtune::data {

// prompt and answer are tokenised apart, so that no token spans both.
struct PromptAndAnswer {
  std::string context;   // empty: no system turn
  std::string question;  // empty: no user turn
  std::string prompt;    // all that precedes the answer
  std::string answer;
  std::string dropped;  // not empty: the row holds nothing to learn, for this reason
};

struct TextRow {
  const io::Value& value;
  const std::string& where;
  std::span<const std::string> unread_columns = {};  // what the file has beside the row
};

struct PromptReader {
  std::string kind;                  // names what `read` does, for fingerprints
  std::vector<std::string> columns;  // what it looks at
  // Throws Error naming the column.
  std::function<PromptAndAnswer(const TextRow& row)> read;
};

// prompt = ctx, answer = endings[label]; rows without a label (test splits) are dropped.
PromptReader hellaswag_reader();
// prompt = "Context: {context} Question: {question} Answer: ", answer = the first of answers.text;
// which as a conversation is the question; unanswerable rows are dropped.
PromptReader squad_reader();
// prompt = the mapped context and question, each followed by a space. Throws Error when the mapping
// has an unknown role or no answer.
PromptReader column_reader(const ColumnMappedSettings& settings);

// The same row as a conversation.
ChatRow as_conversation(const PromptAndAnswer& row);

class PromptSamples : public SampleMaker {
 public:
  struct Settings {
    std::vector<std::string> paths;
    RowSelection rows;
    std::optional<std::int64_t> seq_length;
    TooLong too_long = TooLong::kKeep;
    bool answer_only = true;    // false: the prompt is trained on too
    bool end_with_eos = false;  // the last label is the tokenizer's end-of-text token
    BadRows bad_rows = {};
  };
  PromptSamples(const Settings& settings, PromptReader reader, const TextTools& tools);

  std::int64_t size() const override { return rows_.size(); }
  Sample sample(std::int64_t row, text::EncodeCache& cache) const override;
  std::string where(std::int64_t row) const override { return rows_.where(row); }
  std::int64_t in_files(std::int64_t row) const override { return rows_.in_files(row); }
  void add_to(ContentHash& hash) const override;
  std::vector<Count> notes() const override;
  double max_dropped_fraction() const override { return settings_.bad_rows.ceiling; }

 private:
  Sample make(const TextRow& row, text::EncodeCache& cache) const;

  Settings settings_;
  PromptReader reader_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::string tokenizer_folder_;
  std::int32_t eos_ = kNoLabel;
  Rows rows_;
};

}  // namespace glmtune::data
