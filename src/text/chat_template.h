#pragma once
// ChatTemplate: a checkpoint's chat template (Jinja), rendered as transformers renders it
// (trim_blocks, lstrip_blocks, break and continue, generation blocks, tojson = json.dumps,
// raise_exception, strftime_now), with the origin of every byte of the result.
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "io/json.h"

namespace glmtune::text {

// Where a piece of rendered text comes from.
enum class Origin : std::uint8_t {
  kTemplate,  // written in the template
  kSetting,   // another context variable (bos_token, a template option): the recipe's, not a row's
  kData,      // messages, tools or documents: text that users wrote
};
// Which part of a row a kData piece comes from.
enum class Field : std::uint8_t {
  kNone,
  kRole,
  kContent,
  kReasoningContent,  // also what templates read it from under other names: thinking, reasoning
  kToolCalls,
  kTools,
  kOther,
};

Field field_of(std::string_view key);  // of a message

struct Segment {
  std::size_t begin = 0;
  std::size_t end = 0;
  Origin origin = Origin::kTemplate;
  Field field = Field::kNone;
  // kData: index of the message it comes from, -1 for tools and documents. Otherwise: the message
  // whose iteration of a loop over messages (or a part of them) wrote it, -1 outside such loops.
  std::int32_t message = -1;
  bool operator==(const Segment&) const = default;
};

// A field of a message that the template did not read.
struct UnreadField {
  std::int32_t message = -1;
  std::string key;
};

struct Rendered {
  std::string text;
  std::vector<Segment> segments;  // in order, without gaps, cover the text
  // Byte spans of the generation blocks in the order of their ends; may be empty spans.
  std::vector<std::pair<std::size_t, std::size_t>> generation;
  std::vector<UnreadField> unread;
};

struct RenderLimits {
  std::size_t max_steps = 50'000'000;              // evaluation steps
  std::size_t max_bytes = std::size_t(512) << 20;  // of strings and lists alive at a time
};

struct RenderOptions {
  std::optional<std::tm> now;  // what strftime_now formats; absent: the local time
  RenderLimits limits;
};

// An error in the template or of its evaluation. `kind` is the class Python would raise
// ("UndefinedError", "TypeError", "TemplateSyntaxError", ...; raise_exception: "TemplateError").
struct TemplateError : Error {
  TemplateError(const std::string& message, std::string kind_, int line_, int message_index_)
      : Error(message), kind(std::move(kind_)), line(line_), message_index(message_index_) {}
  std::string kind;
  int line;           // of the template, from 1
  int message_index;  // of the message being rendered, -1 where unknown
};

// Why a file's text cannot be a template: "is empty; ...", "is not UTF-8 text (line 3)"; "" where
// it can.
std::string problem_of_template(std::string_view source);

class ChatTemplate {
 public:
  // `where` names the source in error messages. Throws TemplateError on a syntax error.
  static ChatTemplate parse(std::string source, std::string where);
  // chat_template.jinja of a checkpoint folder, else the chat_template of its
  // tokenizer_config.json (of several named ones "default"). An error where there is none. Where
  // there is a "tool_use" beside it (in that list, or additional_chat_templates/tool_use.jinja),
  // contexts with tools are rendered by that one, as in transformers.
  static ChatTemplate load(const std::string& folder);

  // The templates that this one stands for: itself, and the one for tools if that is another.
  std::vector<ChatTemplate> variants() const;
  // The variant that transformers takes: the one for tools where `tools` are given and not null.
  ChatTemplate for_context(const io::Value& context) const;

  // `context` is an object: messages, tools, add_generation_prompt, bos_token, options ...
  // Throws TemplateError, also when a limit is exceeded.
  Rendered render(const io::Value& context, const RenderOptions& options = {}) const;

  const std::string& source() const;
  // All that decides what is rendered: the source, and that of the variant for tools behind it.
  std::string sources() const;
  bool has_generation_blocks() const;
  // Whether the template, or its variant for tools, speaks of `name` anywhere: as a variable, an
  // attribute or a string. What it never mentions (an option, a field of a message) cannot change
  // what it renders.
  bool mentions(std::string_view name) const;

  struct Impl;

 private:
  explicit ChatTemplate(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace glmtune::text
