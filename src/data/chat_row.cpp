#include "data/chat_row.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>

#include "base/cat.h"
#include "base/error.h"
#include "data/rows.h"
#include "io/json_integers.h"

namespace glmtune::data {
namespace {

using io::Value;

constexpr std::array<std::string_view, 4> kRoles{"system", "user", "assistant", "tool"};

class Reader {
 public:
  Reader(const std::string& where, const ChatRowOptions& options)
      : where_(where), options_(options) {}

  ChatRow read(const Value& row) {
    ChatRow out;
    const Value* messages = row.find("messages");
    const Value* conversations = row.find("conversations");
    if (messages != nullptr && conversations != nullptr) {
      error("a row has either messages or conversations, found both");
    }
    if (messages == nullptr && conversations == nullptr) {
      error(cat("neither messages nor conversations; the row's keys: ", keys_of(row)));
    }
    const bool share_gpt = conversations != nullptr;
    const std::string name = share_gpt ? "conversations" : "messages";
    const Value& list = share_gpt ? *conversations : *messages;
    if (!list.is_array()) error(cat(name, ": expected a list, found ", list.kind_name()));
    if (list.size() == 0) error(cat(name, ": is empty"));
    if (const Value* system = row.find("system"); share_gpt && system != nullptr) {
      if (!system->is_string() && !system->is_null())
        error(cat("system: expected text, found ", system->kind_name()));
      if (system->is_string() && system->size() > 0) {
        Value first{Value::Object{}};
        first.set("role", "system");
        first.set("content", *system);
        out.messages.push_back(std::move(first));
      }
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string path = cat(name, "[", i, "]");
      const Value& item = list.as_array()[i];
      if (!item.is_object()) {
        error(cat(path, ": expected an object, found ", item.kind_name()));
      }
      out.messages.push_back(share_gpt ? from_share_gpt(item, path) : message(item, path));
    }
    out.tools = tools(row);
    for (const auto& [key, value] : row.as_object()) {
      if (key != name && key != "tools" && !(share_gpt && key == "system")) {
        out.columns.push_back(key);
      }
    }
    check_tool_results(out.messages, name);
    out.notes = std::move(notes_);
    return out;
  }

 private:
  [[noreturn]] void error(const std::string& what) const { fail(cat(where_, ": ", what)); }

  static std::string keys_of(const Value& object) {
    std::string keys;
    for (const auto& [key, value] : object.as_object()) keys += (keys.empty() ? "" : ", ") + key;
    return keys.empty() ? "none" : keys;
  }

  Value message(const Value& item, const std::string& path) {
    const Value* role = item.find("role");
    if (role == nullptr) error(cat(path, ".role: is missing; the keys are: ", keys_of(item)));
    if (!role->is_string()) error(cat(path, ".role: expected text, found ", role->kind_name()));
    const std::string& name = role->as_string();
    if (std::find(kRoles.begin(), kRoles.end(), name) == kRoles.end()) {
      error(cat(path, ".role: \"", name.substr(0, 40),
                "\" is not one of system, user, assistant, tool"));
    }
    Value out = item;
    const Value* content = item.find("content");
    if (content == nullptr && name != "assistant") error(cat(path, ".content: is missing"));
    out.set("content", content == nullptr ? Value("") : text_of(*content, name, path + ".content"));
    if (const Value* reasoning = item.find("reasoning_content")) {
      if (reasoning->is_null()) {
        out.erase("reasoning_content");
      } else if (!reasoning->is_string()) {
        error(cat(path, ".reasoning_content: expected text, found ", reasoning->kind_name()));
      }
    }
    if (const Value* calls = item.find("tool_calls")) {
      const bool none = calls->is_null() || (calls->is_array() && calls->size() == 0);
      if (none) {
        out.erase("tool_calls");
      } else if (name != "assistant") {
        error(cat(path, ".tool_calls: only an assistant calls tools, this is ", name));
      } else {
        out.set("tool_calls", tool_calls(*calls, path + ".tool_calls"));
      }
    }
    return out;
  }

  // Content as one string; lists of text parts are joined in order.
  Value text_of(const Value& content, const std::string& role, const std::string& path) {
    if (content.is_string()) return content;
    if (content.is_null()) return Value("");
    if (!content.is_array()) {
      error(cat(path, ": expected text or a list of text parts, found ", content.kind_name()));
    }
    std::string joined;
    for (std::size_t i = 0; i < content.size(); ++i) {
      const Value& part = content.as_array()[i];
      if (part.is_string()) {
        joined += part.as_string();
        continue;
      }
      const Value* type = part.is_object() ? part.find("type") : nullptr;
      const Value* text = part.is_object() ? part.find("text") : nullptr;
      if (type != nullptr && *type == Value("text") && text != nullptr && text->is_string()) {
        joined += text->as_string();
        continue;
      }
      const bool tool_part =
          part.is_object() && role == "tool" &&
          ((type != nullptr && *type == Value("tool_reference")) || part.find("output") != nullptr);
      if (tool_part && options_.template_reads_tool_references) return content;
      error(cat(path, "[", i, "]: expected {\"type\": \"text\", \"text\": ...}, found ",
                type != nullptr && type->is_string()
                    ? cat("a part of type \"", type->as_string().substr(0, 40), "\"")
                    : std::string(part.kind_name()),
                "; only text can be trained on"));
    }
    add_count(notes_, "content given as a list of text parts, joined");
    return Value(joined);
  }

  Value tool_calls(const Value& calls, const std::string& path) {
    if (!calls.is_array()) error(cat(path, ": expected a list, found ", calls.kind_name()));
    Value::Array out;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const std::string at = cat(path, "[", i, "]");
      Value call = calls.as_array()[i];
      if (!call.is_object()) error(cat(at, ": expected an object, found ", call.kind_name()));
      if (const Value* function = call.find("function")) {
        call.set("function", function_call(*function, at + ".function"));
      } else {
        call = function_call(call, at);
      }
      out.push_back(std::move(call));
    }
    return Value(std::move(out));
  }

  // {name, arguments}: arguments become an object.
  Value function_call(Value function, const std::string& path) {
    if (!function.is_object()) {
      error(cat(path, ": expected an object, found ", function.kind_name()));
    }
    const Value* name = function.find("name");
    if (name == nullptr || !name->is_string() || name->size() == 0) {
      error(cat(path, ".name: expected the tool's name"));
    }
    const Value* arguments = function.find("arguments");
    if (arguments == nullptr) error(cat(path, ".arguments: is missing"));
    if (arguments->is_string()) {
      Value parsed = json_text(arguments->as_string(), path + ".arguments");
      if (!parsed.is_object()) {
        error(cat(path, ".arguments: expected the text of a JSON object, found ",
                  parsed.kind_name()));
      }
      function.set("arguments", std::move(parsed));
    } else if (!arguments->is_object()) {
      error(cat(path, ".arguments: expected an object, found ", arguments->kind_name()));
    } else if (options_.columnar) {
      bool dropped = false;
      function.set("arguments", without_nulls(*arguments, dropped));
      if (dropped) add_count(notes_, "tool calls of Parquet rows with null arguments, left out");
    }
    return function;
  }

  // Objects inside and out; the nulls of a list are its elements.
  static Value without_nulls(const Value& value, bool& dropped) {
    if (value.is_array()) {
      Value::Array items;
      for (const Value& item : value.as_array()) items.push_back(without_nulls(item, dropped));
      return Value(std::move(items));
    }
    if (!value.is_object()) return value;
    Value out{Value::Object{}};
    for (const auto& [key, member] : value.as_object()) {
      if (member.is_null())
        dropped = true;
      else
        out.set(key, without_nulls(member, dropped));
    }
    return out;
  }

  Value json_text(const std::string& text, const std::string& path) const {
    const std::string at = cat(where_, ": ", path);
    Value value = io::parse_json(text, at);
    refuse_oversized_integer(io::first_oversized_integer(text), at);
    return value;
  }

  Value tools(const Value& row) {
    const Value* tools = row.find("tools");
    if (tools == nullptr || tools->is_null()) return {};
    Value list = *tools;
    if (list.is_string()) {
      if (list.size() == 0) return {};
      list = json_text(list.as_string(), "tools");
    }
    if (!list.is_array()) {
      error(cat("tools: expected a list, or a list as JSON text, found ", list.kind_name()));
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Value& tool = list.as_array()[i];
      if (!tool.is_object()) {
        error(cat("tools[", i, "]: expected an object, found ", tool.kind_name()));
      }
    }
    if (list.size() == 0) return {};
    return list;
  }

  Value from_share_gpt(const Value& item, const std::string& path) {
    const Value* from = item.find("from");
    const Value* value = item.find("value");
    if (from == nullptr || !from->is_string()) error(cat(path, ".from: is missing, or not text"));
    if (value == nullptr) error(cat(path, ".value: is missing"));
    const std::string& who = from->as_string();
    Value out{Value::Object{}};
    if (who == "function_call") {
      if (!value->is_string()) error(cat(path, ".value: expected JSON text"));
      Value call{Value::Object{}};
      call.set("type", "function");
      call.set("function",
               function_call(json_text(value->as_string(), path + ".value"), path + ".value"));
      out.set("role", "assistant");
      out.set("content", "");
      out.set("tool_calls", Value(Value::Array{std::move(call)}));
      return out;
    }
    const std::string role = who == "human"                              ? "user"
                             : who == "gpt"                              ? "assistant"
                             : who == "observation" || who == "function" ? "tool"
                                                                         : who;
    if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end()) {
      error(cat(path, ".from: \"", who.substr(0, 40),
                "\" is not one of human, gpt, system, function_call, observation, or a role"));
    }
    out.set("role", role);
    out.set("content", text_of(*value, role, path + ".value"));
    return out;
  }

  void check_tool_results(const Value::Array& messages, const std::string& name) const {
    bool called = false;
    bool nameless = false;  // some call has no id, so an unknown id may be that call's
    std::unordered_set<std::string> ids;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const Value& m = messages[i];
      const std::string& role = m.find("role")->as_string();
      if (const Value* calls = m.find("tool_calls")) {
        called = true;
        for (const Value& call : calls->as_array()) {
          const Value* id = call.find("id");
          if (id != nullptr && id->is_string()) {
            ids.insert(id->as_string());
          } else {
            nameless = true;
          }
        }
      }
      if (role != "tool") continue;
      if (!called) {
        error(cat(name, "[", i, "]: a tool's result without an earlier tool call"));
      }
      const Value* id = m.find("tool_call_id");
      if (id != nullptr && !id->is_string() && !id->is_null())
        error(cat(name, "[", i, "].tool_call_id: expected text, found ", id->kind_name()));
      if (id != nullptr && id->is_string() && !nameless && ids.count(id->as_string()) == 0) {
        error(cat(name, "[", i, "].tool_call_id: \"", id->as_string().substr(0, 60),
                  "\" is not the id of an earlier tool call"));
      }
    }
  }

  const std::string& where_;
  const ChatRowOptions& options_;
  std::vector<Count> notes_;
};

}  // namespace

ChatRow read_chat_row(const io::Value& row, const std::string& where,
                      const ChatRowOptions& options) {
  return Reader(where, options).read(row);
}

}  // namespace glmtune::data
