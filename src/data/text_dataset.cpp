#include "data/text_dataset.h"

#include <charconv>

#include "base/cat.h"
#include "base/error.h"
#include "data/split_files.h"
#include "text/tokenizer.h"

namespace glmtune::data {
namespace {

using io::Value;

const Value& column(const TextRow& row, const std::string& name) {
  if (const Value* v = row.value.find(name)) return *v;
  std::string keys;
  for (const auto& [key, value] : row.value.as_object()) keys += (keys.empty() ? "" : ", ") + key;
  for (const std::string& key : row.unread_columns) keys += (keys.empty() ? "" : ", ") + key;
  fail(cat(row.where, ": column \"", name, "\" is missing; the row's columns: ", keys));
}

// Text, or a number or bool as JSON spells it; null is empty.
std::string text_of(const TextRow& row, const std::string& name) {
  const Value& v = column(row, name);
  if (v.is_string()) return v.as_string();
  if (v.is_null()) return "";
  if (v.is_number() || v.is_bool()) return io::to_json(v);
  fail(cat(row.where, ": column \"", name, "\": expected text, found ", v.kind_name()));
}

PromptAndAnswer read_hellaswag(const TextRow& row) {
  PromptAndAnswer out;
  out.prompt = out.question = text_of(row, "ctx");
  const Value& endings = column(row, "endings");
  if (!endings.is_array()) {
    fail(cat(row.where, ": column \"endings\": expected a list, found ", endings.kind_name()));
  }
  const std::string label = text_of(row, "label");
  if (label.empty()) {
    out.dropped = "no label";
    return out;
  }
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), index);
  if (error != std::errc() || end != label.data() + label.size() || index >= endings.size()) {
    fail(cat(row.where, ": column \"label\": expected a number below ", endings.size(),
             ", found \"", label.substr(0, 40), "\""));
  }
  const Value& ending = endings.as_array()[index];
  if (!ending.is_string()) fail(cat(row.where, ": endings[", index, "]: expected text"));
  out.answer = ending.as_string();
  return out;
}

std::string trim(const std::string& s) {
  const std::size_t first = s.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return "";
  return s.substr(first, s.find_last_not_of(" \t\r\n") - first + 1);
}

PromptAndAnswer read_squad(const TextRow& row) {
  PromptAndAnswer out;
  out.prompt = out.question = cat("Context: ", text_of(row, "context"),
                                  " Question: ", text_of(row, "question"), " Answer: ");
  const Value& answers = column(row, "answers");
  const Value* texts = answers.is_object() ? answers.find("text") : nullptr;
  if (texts == nullptr || !texts->is_array()) {
    fail(cat(row.where, ": column \"answers\": expected {\"text\": [...]}, found ",
             answers.kind_name()));
  }
  if (texts->size() == 0) {
    out.dropped = "no answer";
    return out;
  }
  const Value& first = texts->as_array().front();
  if (!first.is_string()) fail(cat(row.where, ": answers.text[0]: expected text"));
  out.answer = trim(first.as_string());
  return out;
}

}  // namespace

PromptReader hellaswag_reader() {
  return {"hellaswag", {"ctx", "endings", "label"}, read_hellaswag};
}

PromptReader squad_reader() {
  return {"squad", {"context", "question", "answers"}, read_squad};
}

PromptReader column_reader(const ColumnMappedSettings& settings) {
  std::string kind = "columns";
  std::vector<std::string> columns;
  bool has_answer = false;
  bool has_prompt = false;
  for (const auto& [role, name] : settings.column_mapping) {
    if (role != "context" && role != "question" && role != "answer") {
      fail(cat("dataset.column_mapping.", role, ": known roles are context, question, answer"));
    }
    (role == "answer" ? has_answer : has_prompt) = true;
    kind += cat(" ", role, "=", name);
    columns.push_back(name);
  }
  check(has_answer && has_prompt,
        "dataset.column_mapping: needs answer, and context or question or both");
  const auto read = [mapping = settings.column_mapping](const TextRow& row) {
    PromptAndAnswer out;
    for (const auto& [role, name] : mapping) {
      (role == "answer"    ? out.answer
       : role == "context" ? out.context
                           : out.question) = text_of(row, name);
    }
    for (const std::string* part : {&out.context, &out.question}) {
      if (!part->empty()) out.prompt += *part + " ";
    }
    if (out.answer.empty()) out.dropped = "no answer";
    return out;
  };
  return {kind, columns, read};
}

ChatRow as_conversation(const PromptAndAnswer& row) {
  ChatRow out;
  out.dropped = row.dropped;
  const auto add = [&](const char* role, const std::string& text) {
    Value message{Value::Object{}};
    message.set("role", role);
    message.set("content", text);
    out.messages.push_back(std::move(message));
  };
  if (!row.context.empty()) add("system", row.context);
  if (!row.question.empty()) add("user", row.question);
  add("assistant", row.answer);
  return out;
}

PromptSamples::PromptSamples(const Settings& settings, PromptReader reader, const TextTools& tools)
    : settings_(settings),
      reader_(std::move(reader)),
      tokenizer_(tools.tokenizer),
      tokenizer_folder_(tools.tokenizer_folder),
      rows_(settings.paths, settings.rows, {.columns = reader_.columns}) {
  check(tokenizer_ != nullptr, "dataset: text data need a tokenizer");
  if (settings_.end_with_eos) eos_ = tokenizer_->eos_token_id().value_or(kNoLabel);
}

Sample PromptSamples::make(const TextRow& row, text::EncodeCache& cache) const {
  const PromptAndAnswer pair = reader_.read(row);
  Sample sample;
  sample.dropped = pair.dropped;
  if (!sample.dropped.empty()) return sample;
  text::Encoding tokens;
  std::size_t spellings = tokenizer_->encode_where(pair.prompt, {}, cache, tokens);
  const std::size_t prompt = settings_.answer_only ? tokens.ids.size() : 0;
  spellings += tokenizer_->encode_where(pair.answer, {}, cache, tokens);
  note_control_spellings(spellings, sample.notes);
  sample.ids = std::move(tokens.ids);
  const std::size_t n = sample.ids.size();
  sample.labels.assign(n, kNoLabel);
  for (std::size_t t = std::max<std::size_t>(prompt, 1); t < n; ++t) {
    sample.labels[t - 1] = sample.ids[t];
  }
  if (n > prompt) sample.labels[n - 1] = eos_;
  return sample;
}

Sample PromptSamples::sample(std::int64_t row, text::EncodeCache& cache) const {
  const std::string where = rows_.where(row);
  Sample sample;
  try {
    sample = make({rows_.row(row), where, rows_.unread_columns(row)}, cache);
  } catch (const MachineError&) {
    throw;
  } catch (const Error& e) {
    if (!settings_.bad_rows.skip) throw;
    return refused(e);
  }
  fit(sample, settings_.seq_length, settings_.too_long, where);
  return sample;
}

std::vector<Count> PromptSamples::notes() const {
  return files_left_out(settings_.paths, name_of_split(settings_.rows.split));
}

void PromptSamples::add_to(ContentHash& hash) const {
  hash.add(reader_.kind);
  rows_.add_to(hash);
  hash.add_file(tokenizer_folder_ + "/tokenizer.json");
  hash.add_file(tokenizer_folder_ + "/tokenizer_config.json");
  hash.add(settings_.seq_length.value_or(-1));
  hash.add(static_cast<std::int64_t>(settings_.too_long));
  hash.add(static_cast<std::int64_t>(settings_.answer_only));
  hash.add(static_cast<std::int64_t>(settings_.bad_rows.skip));
  hash.add(static_cast<std::int64_t>(eos_));
}

}  // namespace glmtune::data
