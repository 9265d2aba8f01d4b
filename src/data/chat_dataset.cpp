#include "data/chat_dataset.h"

#include <algorithm>
#include <ctime>
#include <string>
#include <vector>

#include "base/cat.h"
#include "base/error.h"
#include "data/rows.h"
#include "data/split_files.h"
#include "io/sha256.h"

namespace glmtune::data {
namespace {

using io::Value;

std::shared_ptr<const text::ChatTemplate> choose_template(const ChatSettings& settings,
                                                          const TextTools& tools) {
  if (!settings.chat_template.empty()) {
    return std::make_shared<text::ChatTemplate>(
        text::ChatTemplate::parse(settings.chat_template, "dataset.chat_template"));
  }
  check(tools.chat_template != nullptr,
        "dataset: the checkpoint has no chat template (chat_template.jinja, or chat_template in "
        "tokenizer_config.json); give one with dataset.chat_template");
  return tools.chat_template;
}

// The context variables of transformers beside the conversation: special tokens and the recipe's.
Value template_options(const ChatSettings& settings, const text::Tokenizer& tokenizer) {
  Value options{Value::Object{}};
  const auto set = [&](const char* name, const std::string& token) {
    if (!token.empty()) options.set(name, token);
  };
  set("bos_token", tokenizer.bos_token());
  set("eos_token", tokenizer.eos_token());
  set("pad_token", tokenizer.pad_token());
  if (!settings.chat_template_kwargs.is_object()) {
    fail(cat("dataset.chat_template_kwargs: expected a map, found ",
             settings.chat_template_kwargs.kind_name()));
  }
  for (const auto& [key, value] : settings.chat_template_kwargs.as_object()) {
    if (key == "messages" || key == "tools" || key == "add_generation_prompt") {
      fail(cat("dataset.chat_template_kwargs.", key, ": comes from the data, not the recipe"));
    }
    if (key != "strftime_now") options.set(key, value);
  }
  return options;
}

// For probing a template that only sees conversations with tools.
Value any_tools() {
  return io::parse_json(R"([{"type": "function", "function": {"name": "f", "description": "",
      "parameters": {"type": "object", "properties": {}}}}])",
                        "tools");
}

// "YYYY-MM-DD", or that and " HH:MM:SS".
std::tm time_of(const Value& value) {
  std::tm t{};
  const std::string text = value.is_string() ? value.as_string() : io::to_json(value);
  const char* rest = strptime(text.c_str(), "%Y-%m-%d", &t);
  if (rest != nullptr && *rest != '\0') rest = strptime(rest, " %H:%M:%S", &t);
  std::tm read = t;
  const bool exists = rest != nullptr && *rest == '\0' && timegm(&read) != -1 &&
                      read.tm_mday == t.tm_mday && read.tm_mon == t.tm_mon;
  if (!exists) {
    fail(
        cat("dataset.chat_template_kwargs.strftime_now: expected the time that the chat template "
            "writes, \"2026-01-31\" or \"2026-01-31 12:00:00\", found ",
            io::to_json(value)));
  }
  return read;
}

bool role_is(const Value& message, const char* role) {
  return *message.find("role") == Value(role);
}

}  // namespace

ChatSamples::ChatSamples(const ChatSettings& settings, const TextTools& tools, ReadChat read,
                         std::vector<std::string> columns, std::string kind)
    : settings_(settings),
      read_(std::move(read)),
      kind_(std::move(kind)),
      tokenizer_(tools.tokenizer),
      tokenizer_folder_(tools.tokenizer_folder),
      template_(choose_template(settings, tools)),
      rows_(settings.paths, settings.rows, {.columns = std::move(columns)}) {
  check(tokenizer_ != nullptr, "dataset: chat data need a tokenizer");
  if (settings_.seq_length && *settings_.seq_length < 1) {
    fail(cat("dataset.seq_length: must be at least 1, found ", *settings_.seq_length));
  }
  options_ = template_options(settings_, *tokenizer_);
  row_options_.template_reads_tool_references = template_->mentions("tool_reference");
  set_time();
  for (const text::ChatTemplate& variant : template_->variants()) {
    Value options = options_;
    if (!variants_.empty()) options.set("tools", any_tools());
    TurnFrame frame = probe_turns(variant, *tokenizer_, options);
    variants_.push_back({variant, std::move(frame), std::move(options)});
  }
  set_facts();
  for (const auto& [key, value] : settings_.chat_template_kwargs.as_object()) {
    if (!template_->mentions(key)) {
      add_count(notes_, cat("chat_template_kwargs.", key, " is never read by the chat template"));
    }
  }
  if (std::any_of(variants_.begin(), variants_.end(), [](const Variant& v) {
        return !v.chat_template.has_generation_blocks() && v.frame.stop_after_answer < 0;
      })) {
    add_count(notes_, "the chat template ends turns with no token that could be trained as a stop");
  }
  if (std::any_of(variants_.begin(), variants_.end(),
                  [](const Variant& v) { return v.chat_template.has_generation_blocks(); }))
    note_ineffective_switches();
  for (const Count& c : files_left_out(settings_.paths, name_of_split(settings_.rows.split)))
    add_count(notes_, c.what, c.count);
}

// Generation blocks decide where turns begin and end.
void ChatSamples::note_ineffective_switches() {
  const ChatSettings defaults;
  const auto note = [&](const char* key, bool ChatSettings::*flag) {
    if (settings_.*flag == defaults.*flag) return;
    add_count(notes_, cat("dataset.", key,
                          " has no effect: the chat template's generation blocks say what is "
                          "trained on"));
  };
  note("supervise_role_header", &ChatSettings::supervise_role_header);
  note("supervise_next_role", &ChatSettings::supervise_next_role);
  note("supervise_last_stop", &ChatSettings::supervise_last_stop);
}

// What strftime_now formats: the pinned time, or that of the opening of the data set.
void ChatSamples::set_time() {
  if (const Value* pinned = settings_.chat_template_kwargs.find("strftime_now")) {
    render_options_.now = time_of(*pinned);
    return;
  }
  std::tm now{};
  const std::time_t seconds = std::time(nullptr);
  localtime_r(&seconds, &now);
  render_options_.now = now;
  if (!template_->mentions("strftime_now")) return;
  char date[16];
  std::strftime(date, sizeof date, "%Y-%m-%d", &now);
  add_count(notes_, cat("the chat template writes the day on which the data were first opened into "
                        "every row, so a resume on another day has other data unless it finds them "
                        "in the cache; pin the day with "
                        "dataset.chat_template_kwargs.strftime_now: \"",
                        date, "\""));
}

Value ChatSamples::context(const ChatRow& row) const {
  Value context{Value::Object{}};
  context.set("messages", Value(row.messages));
  context.set("tools", row.tools);
  context.set("documents", Value());
  context.set("add_generation_prompt", false);
  for (const auto& [key, value] : options_.as_object()) context.set(key, value);
  return context;
}

void ChatSamples::note_unused(const ChatRow& row, const std::vector<text::UnreadField>& unread,
                              std::vector<Count>& notes) const {
  for (const std::string& column : row.columns) {
    add_count(notes, cat("column \"", column, "\" is not used"));
  }
  for (const auto& [message, key] : unread) {
    const Value& m = row.messages[static_cast<std::size_t>(message)];
    if (key == "role" || key == "content" || m.find(key)->is_null() ||
        (key == "weight" && role_is(m, "assistant")))
      continue;
    add_count(notes, cat("message field \"", key, "\" is not used by the chat template"));
  }
  if (!row.tools.is_null() && !variant_for(row).chat_template.mentions("tools")) {
    add_count(notes, "tools are not used by the chat template");
  }
}

Sample ChatSamples::make(std::int64_t row, text::EncodeCache& cache) const {
  const std::string where = rows_.where(row);
  const Value value = rows_.row(row);
  if (!read_) rows_.check_integers(row);
  ChatRowOptions row_options = row_options_;
  row_options.columnar = rows_.is_columnar(row);
  row_options.unread_columns = rows_.unread_columns(row);
  const ChatRow chat =
      read_ ? read_(value, where, row_options) : read_chat_row(value, where, row_options);
  Sample sample;
  sample.notes = chat.notes;
  sample.dropped = chat.dropped;
  if (!sample.dropped.empty()) return sample;
  if (std::none_of(chat.messages.begin(), chat.messages.end(),
                   [](const Value& m) { return role_is(m, "assistant"); })) {
    sample.dropped = "no assistant turn";
    sample.invalid = true;
    return sample;
  }
  if (!role_is(chat.messages.back(), "assistant")) {
    add_count(sample.notes, "conversations that do not end with an assistant turn");
  }
  const Variant& variant = variant_for(chat);
  text::Rendered rendered;
  try {
    rendered = variant.chat_template.render(context(chat), render_options_);
  } catch (const text::TemplateError& e) {
    fail(cat(where, ": the chat template refuses this conversation: ", e.what()));
  }
  note_unused(chat, rendered.unread, sample.notes);
  const auto encoded = text::encode_rendered(
      *tokenizer_, rendered, cache, {.allow_control_tokens = settings_.allow_control_tokens});
  note_control_spellings(encoded.control_spellings, sample.notes);
  ChatLabels labels;
  try {
    labels = label_chat(rendered, encoded.tokens, chat.messages, variant.frame, *tokenizer_,
                        settings_, variant.chat_template.has_generation_blocks());
  } catch (const MachineError&) {
    throw;
  } catch (const Error& e) {
    fail(cat(where, ": ", e.what()));
  }
  for (const Count& c : labels.notes) add_count(sample.notes, c.what, c.count);
  sample.ids = encoded.tokens.ids;
  sample.labels = std::move(labels.labels);
  return sample;
}

Sample ChatSamples::sample(std::int64_t row, text::EncodeCache& cache) const {
  Sample sample;
  try {
    sample = make(row, cache);
  } catch (const MachineError&) {
    throw;
  } catch (const Error& e) {
    if (!settings_.bad_rows.skip) throw;
    return refused(e);
  }
  fit(sample, settings_.seq_length, settings_.too_long, rows_.where(row));
  return sample;
}

void ChatSamples::set_facts() {
  facts_.template_sha256 = io::sha256_hex(template_->sources());
  for (const Variant& v : variants_)
    for (std::string& what :
         never_trained(v.chat_template, *tokenizer_, v.probe_options, v.frame, settings_))
      if (std::find(facts_.untrained.begin(), facts_.untrained.end(), what) ==
          facts_.untrained.end())
        facts_.untrained.push_back(std::move(what));
}

void ChatSamples::add_to(ContentHash& hash) const {
  hash.add(kind_);
  rows_.add_to(hash);
  hash.add_file(tokenizer_folder_ + "/tokenizer.json");
  hash.add_file(tokenizer_folder_ + "/tokenizer_config.json");
  hash.add(template_->sources());
  hash.add(io::to_json(options_));
  if (const Value* pinned = settings_.chat_template_kwargs.find("strftime_now")) {
    hash.add(cat("strftime_now ", io::to_json(*pinned)));
  }
  hash.add(settings_.seq_length.value_or(-1));
  hash.add(static_cast<std::int64_t>(settings_.too_long));
  for (const bool b :
       {settings_.mask_reasoning_content, settings_.mask_history, settings_.mask_empty_think,
        settings_.supervise_role_header, settings_.supervise_next_role,
        settings_.supervise_last_stop, settings_.allow_control_tokens, settings_.bad_rows.skip}) {
    hash.add(static_cast<std::int64_t>(b));
  }
}

}  // namespace glmtune::data
