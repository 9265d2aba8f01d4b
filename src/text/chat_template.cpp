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
  std::string tool_use;  // where the template for conversations with tools is, if another one
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
  return parse(std::move(source), std::move(where), "");
}

ChatTemplate ChatTemplate::parse(std::string source, std::string where, std::string tool_use) {
  if (source.size() > kMaxSource) {
    fail_at(where, 1, -1, "TemplateSyntaxError",
            cat("a template of ", source.size(), " bytes (at most ", kMaxSource, ")"));
  }
  auto impl = std::make_shared<Impl>();
  try {
    impl->program = jinja::parse(source);
  } catch (const jinja::SyntaxError& e) {
    fail_at(where, e.line, -1, "TemplateSyntaxError", e.what);
  }
  impl->source = std::move(source);
  impl->where = std::move(where);
  impl->tool_use = std::move(tool_use);
  return ChatTemplate(std::move(impl));
}

ChatTemplate ChatTemplate::load(const std::string& folder) {
  const std::filesystem::path path(folder);
  const std::filesystem::path file = path / "chat_template.jinja";
  const std::filesystem::path tool_file = path / "additional_chat_templates" / "tool_use.jinja";
  std::string tool_use = std::filesystem::exists(tool_file) ? tool_file.string() : "";
  if (std::filesystem::exists(file))
    return parse(from_file(io::read_file(file.string()), file.string()), file.string(),
                 std::move(tool_use));
  const std::filesystem::path config = path / "tokenizer_config.json";
  if (std::filesystem::exists(config)) {
    const io::Value value = io::read_json_file(config.string());
    const io::Value* found = value.find("chat_template");
    if (found != nullptr && found->is_array()) {
      const io::Value* by_name = nullptr;
      for (const io::Value& named : found->as_array()) {
        const io::Value* name = named.is_object() ? named.find("name") : nullptr;
        if (name == nullptr) continue;
        if (*name == io::Value("default")) by_name = named.find("template");
        if (*name == io::Value("tool_use"))
          tool_use = config.string() + " (chat_template \"tool_use\")";
      }
      found = by_name;
    }
    if (found != nullptr && found->is_string()) {
      const std::string where = config.string() + " (chat_template)";
      return parse(from_file(found->as_string(), where), where, std::move(tool_use));
    }
  }
  fail(cat(folder,
           ": no chat template; expected chat_template.jinja, or \"chat_template\" in "
           "tokenizer_config.json"));
}

Rendered ChatTemplate::render(const io::Value& context, const RenderOptions& options) const {
  if (!context.is_object()) {
    fail(cat(impl_->where, ": the context of a template must be an object, found ",
             context.kind_name()));
  }
  const io::Value* tools = context.find("tools");
  if (!impl_->tool_use.empty() && tools != nullptr && !tools->is_null()) {
    fail_at(impl_->where, 1, -1, "ValueError",
            cat("the conversation has tools, and the checkpoint has two templates: this one "
                "(\"default\", for those without tools) and ",
                impl_->tool_use,
                " for those with tools, of which only the first is used; give the one for tools as "
                "dataset.chat_template and train the two kinds of data in runs of their own, or "
                "leave the tools out"));
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

bool ChatTemplate::has_generation_blocks() const {
  return impl_->program.has_generation;
}

bool ChatTemplate::mentions(std::string_view name) const {
  return impl_->program.mentioned.count(name) > 0;
}

}  // namespace glmtune::text
