#include "text/chat_template.h"

#include <algorithm>
#include <filesystem>

#include "base/cat.h"
#include "io/files.h"
#include "io/utf8.h"
#include "text/template_evaluator.h"
#include "text/template_lexer.h"

namespace glmtune::text {

struct ChatTemplate::Impl {
  std::string source;
  std::string where;
  jinja::Program program;
  std::shared_ptr<const Impl> tool_use;  // for conversations with tools, if another one
};

namespace {

// More than any real template by far; keeps the parser's work bounded.
constexpr std::size_t kMaxSource = std::size_t(4) << 20U;

[[noreturn]] void fail_at(const std::string& where, int line, int message_index,
                          const std::string& kind, const std::string& what) {
  const std::string at =
      message_index < 0 ? "" : cat(" (while rendering messages[", message_index, "])");
  throw TemplateError(cat(where, ":", line, ": ", kind, ": ", what, at), kind, line, message_index);
}

std::string from_file(std::string source, const std::string& where) {
  if (const std::string problem = problem_of_template(source); !problem.empty())
    fail(cat(where, ": ", problem));
  return source;
}

std::shared_ptr<ChatTemplate::Impl> parsed(std::string source, std::string where) {
  if (source.size() > kMaxSource) {
    fail_at(where, 1, -1, "TemplateSyntaxError",
            cat("a template of ", source.size(), " bytes (at most ", kMaxSource, ")"));
  }
  auto impl = std::make_shared<ChatTemplate::Impl>();
  try {
    impl->program = jinja::parse(source);
  } catch (const jinja::SyntaxError& e) {
    fail_at(where, e.line, -1, "TemplateSyntaxError", e.what);
  }
  impl->source = std::move(source);
  impl->where = std::move(where);
  return impl;
}

}  // namespace

std::string problem_of_template(std::string_view source) {
  if (source.find_first_not_of(" \t\r\n") == std::string_view::npos)
    return "is empty; expected a chat template";
  const std::size_t bad = io::first_invalid_utf8(source);
  if (bad == source.size()) return "";
  const auto line =
      std::count(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(bad), '\n');
  return cat("is not UTF-8 text (line ", line + 1, ")");
}

Field field_of(std::string_view key) {
  if (key == "role") return Field::kRole;
  if (key == "content") return Field::kContent;
  if (key == "reasoning_content" || key == "thinking" || key == "reasoning")
    return Field::kReasoningContent;
  if (key == "tool_calls") return Field::kToolCalls;
  return Field::kOther;
}

ChatTemplate ChatTemplate::parse(std::string source, std::string where) {
  return ChatTemplate(parsed(std::move(source), std::move(where)));
}

ChatTemplate ChatTemplate::load(const std::string& folder) {
  const std::filesystem::path path(folder);
  const std::filesystem::path file = path / "chat_template.jinja";
  const std::filesystem::path tool_file = path / "additional_chat_templates" / "tool_use.jinja";
  const std::filesystem::path config = path / "tokenizer_config.json";
  std::shared_ptr<Impl> found, tool_use;
  std::string names;
  if (std::filesystem::exists(file)) {
    found = parsed(from_file(io::read_file(file.string()), file.string()), file.string());
  } else if (std::filesystem::exists(config)) {
    const io::Value value = io::read_json_file(config.string());
    const io::Value* entry = value.find("chat_template");
    const std::string where = config.string() + " (chat_template";
    if (entry != nullptr && entry->is_string())
      found = parsed(from_file(entry->as_string(), where + ")"), where + ")");
    if (entry != nullptr && entry->is_array()) {
      for (const io::Value& named : entry->as_array()) {
        const io::Value* name = named.is_object() ? named.find("name") : nullptr;
        const io::Value* source = named.is_object() ? named.find("template") : nullptr;
        if (name == nullptr || source == nullptr || !name->is_string() || !source->is_string()) {
          fail(cat(where, "): expected a list of {\"name\": text, \"template\": text}"));
        }
        names += cat(names.empty() ? "" : ", ", '"', name->as_string(), '"');
        const bool is_default = name->as_string() == "default";
        if (!is_default && name->as_string() != "tool_use") continue;
        const std::string place = cat(where, " \"", name->as_string(), "\")");
        (is_default ? found : tool_use) = parsed(from_file(source->as_string(), place), place);
      }
    }
  }
  if (std::filesystem::exists(tool_file)) {
    tool_use = parsed(from_file(io::read_file(tool_file.string()), tool_file.string()),
                      tool_file.string());
  }
  if (!found && !names.empty()) {
    fail(cat(config.string(), ": of the chat templates there (", names,
             ") none is named \"default\"; give the one to use as dataset.chat_template"));
  }
  if (!found) {
    fail(cat(folder,
             ": no chat template; expected chat_template.jinja, or \"chat_template\" in "
             "tokenizer_config.json"));
  }
  found->tool_use = std::move(tool_use);
  return ChatTemplate(std::move(found));
}

std::vector<ChatTemplate> ChatTemplate::variants() const {
  std::vector<ChatTemplate> all{*this};
  if (impl_->tool_use) all.push_back(ChatTemplate(impl_->tool_use));
  return all;
}

ChatTemplate ChatTemplate::for_context(const io::Value& context) const {
  const io::Value* tools = context.find("tools");
  const bool given = tools != nullptr && !tools->is_null();
  return given && impl_->tool_use ? ChatTemplate(impl_->tool_use) : *this;
}

Rendered ChatTemplate::render(const io::Value& context, const RenderOptions& options) const {
  if (!context.is_object()) {
    fail(cat(impl_->where, ": the context of a template must be an object, found ",
             context.kind_name()));
  }
  if (impl_->tool_use) {
    const ChatTemplate variant = for_context(context);
    if (variant.impl_ != impl_) return variant.render(context, options);
  }
  jinja::Heap heap(options.limits);
  jinja::Evaluator evaluator(impl_->program, heap, options);
  try {
    evaluator.run(context);
  } catch (const jinja::Raise& e) {
    fail_at(impl_->where, evaluator.line(), evaluator.message(), e.kind, e.what);
  }
  Rendered out;
  out.text = evaluator.text().text();
  std::size_t begin = 0;
  for (const jinja::Run& run : evaluator.text().runs()) {
    out.segments.push_back(
        {begin, run.end, run.source.origin, run.source.field, run.source.message});
    begin = run.end;
  }
  out.generation = evaluator.generation();
  out.unread = evaluator.unread();
  return out;
}

const std::string& ChatTemplate::source() const {
  return impl_->source;
}

std::string ChatTemplate::sources() const {
  std::string all = impl_->source;
  if (impl_->tool_use) all.append(1, '\0').append(impl_->tool_use->source);
  return all;
}

bool ChatTemplate::has_generation_blocks() const {
  return impl_->program.has_generation;
}

bool ChatTemplate::mentions(std::string_view name) const {
  return impl_->program.mentioned.count(name) > 0 ||
         (impl_->tool_use && impl_->tool_use->program.mentioned.count(name) > 0);
}

}  // namespace glmtune::text
