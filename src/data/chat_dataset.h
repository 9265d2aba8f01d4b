#pragma once
// ChatDataset: conversations, rendered by the checkpoint's chat template, tokenised and labelled.
#include <functional>
#include <memory>
#include <vector>

#include "data/chat_labels.h"
#include "data/chat_row.h"
#include "data/dataset.h"
#include "data/rows.h"
#include "data/sample.h"
#include "data/settings.h"
#include "text/chat_template.h"
#include "text/encode_rendered.h"
#include "text/tokenizer.h"

namespace glmtune::data {

// Turns a row into a conversation; by default read_chat_row.
using ReadChat =
    std::function<ChatRow(const io::Value& row, const std::string& where, const ChatRowOptions&)>;

class ChatSamples : public SampleMaker {
 public:
  // columns: those that `read` looks at; kind names what it does, for fingerprints. Without a
  // `read` of the caller's, integers beyond 64 bits in messages and tools are refused.
  ChatSamples(const ChatSettings& settings, const TextTools& tools, ReadChat read = {},
              std::vector<std::string> columns = chat_columns(), std::string kind = "chat");

  std::int64_t size() const override { return rows_.size(); }
  Sample sample(std::int64_t row, text::EncodeCache& cache) const override;
  std::string where(std::int64_t row) const override { return rows_.where(row); }
  std::int64_t in_files(std::int64_t row) const override { return rows_.in_files(row); }
  void add_to(ContentHash& hash) const override;
  double max_dropped_fraction() const override { return settings_.bad_rows.ceiling; }
  std::vector<Count> notes() const override { return notes_; }
  ChatFacts chat_facts() const override { return facts_; }

 private:
  // A chat template and how it frames turns: the checkpoint's, and its other one for conversations
  // with tools where it has one.
  struct Variant {
    text::ChatTemplate chat_template;
    TurnFrame frame;
    io::Value probe_options;  // context of the conversations that it is probed with
  };
  const Variant& variant_for(const ChatRow& row) const {
    return row.tools.is_null() ? variants_.front() : variants_.back();
  }
  void set_time();
  void set_facts();
  Sample make(std::int64_t row, text::EncodeCache& cache) const;
  io::Value context(const ChatRow& row) const;
  void note_ineffective_switches();
  void note_unused(const ChatRow& row, const std::vector<text::UnreadField>& unread,
                   std::vector<Count>& notes) const;

  ChatSettings settings_;
  ReadChat read_;  // none: read_chat_row
  std::string kind_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::string tokenizer_folder_;
  std::shared_ptr<const text::ChatTemplate> template_;
  Rows rows_;
  io::Value options_;  // template variables beside messages and tools
  ChatRowOptions row_options_;
  std::vector<Variant> variants_;
  text::RenderOptions render_options_;  // one time for all rows
  std::vector<Count> notes_;
  ChatFacts facts_;
};

}  // namespace glmtune::data
