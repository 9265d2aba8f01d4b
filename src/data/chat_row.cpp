#include "data/chat_row.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>

#include "base/cat.h"
#include "base/error.h"
#include "data/reasoning.h"
#include "data/rows.h"
#include "io/json_integers.h"

namespace glmtune::data {
namespace {

using io::Value;

bool is_role(std::string_view text) {
  constexpr std::array<std::string_view, 4> kRoles{"system", "user", "assistant", "tool"};
  return std::find(kRoles.begin(), kRoles.end(), text) != kRoles.end();
}

class Reader {
 public:
  Reader(const std::string& where, const ChatRowOptions& options)
      : where_(where), options_(options) {}

  ChatRow read(const Value& row) {
    ChatRow out;
    const Value* messages = present(row, "messages");
    const Value* conversations = present(row, "conversations");
    if (messages != nullptr && conversations != nullptr) {
      error("a row has either messages or conversations, found both");
    }
    if (messages == nullptr && conversations == nullptr) {
      error(cat("neither messages nor conversations; the row's keys: ", all_keys(row)));
    }
    const std::string name = messages != nullptr ? "messages" : "conversations";
    const Value& list = messages != nullptr ? *messages : *conversations;
    if (!list.is_array()) error(cat(name, ": expected a list, found ", list.kind_name()));
    if (list.size() == 0) error(cat(name, ": is empty"));
    for (std::size_t i = 0; i < list.size(); ++i) {
      out.messages.push_back(turn(list.as_array()[i], cat(name, "[", i, "]")));
      if (says_nothing(out.messages.back()))
        add_count(notes_, "assistant turns with neither text nor reasoning nor tool calls");
    }
    add_system(row, out.messages);
    out.tools = tools(row);
    for (const auto& [key, value] : row.as_object()) {
      if (key != name && key != "tools" && key != "system" && !value.is_null()) {
        out.columns.push_back(key);
      }
    }
    out.columns.insert(out.columns.end(), options_.unread_columns.begin(),
                       options_.unread_columns.end());
    check_tool_results(out.messages, name);
    out.notes = std::move(notes_);
    return out;
  }

 private:
  [[noreturn]] void error(const std::string& what) const { fail(cat(where_, ": ", what)); }

  std::string all_keys(Value row) const {
    for (const std::string& name : options_.unread_columns) row.set(name, Value());
    return keys_of(row);
  }
  static std::string keys_of(const Value& object) {
    std::string keys;
    for (const auto& [key, value] : object.as_object()) keys += (keys.empty() ? "" : ", ") + key;
    return keys.empty() ? "none" : keys;
  }

  static const Value* present(const Value& object, std::string_view key) {
    const Value* value = object.find(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  static bool says_nothing(const Value& message) {
    return *message.find("role") == Value("assistant") && *message.find("content") == Value("") &&
           message.find("tool_calls") == nullptr && !has_reasoning_field(message);
  }

  // The system text that stands beside the turns.
  void add_system(const Value& row, Value::Array& messages) const {
    const Value* system = present(row, "system");
    if (system == nullptr) return;
    if (!system->is_string()) error(cat("system: expected text, found ", system->kind_name()));
    if (system->size() == 0) return;
    if (const Value& first = messages.front(); *first.find("role") == Value("system")) {
      if (*first.find("content") == *system) return;
      error("system: the turns begin with another system text; the row may have one");
    }
    Value first{Value::Object{}};
    first.set("role", "system");
    first.set("content", *system);
    messages.insert(messages.begin(), std::move(first));
  }

  Value turn(const Value& item, const std::string& path) {
    if (!item.is_object()) error(cat(path, ": expected an object, found ", item.kind_name()));
    const Value* role = present(item, "role");
    const Value* from = present(item, "from");
    if (role == nullptr && from == nullptr) {
      error(cat(path, ".role: is missing; the keys are: ", keys_of(item)));
    }
    return role != nullptr ? message(item, path) : from_share_gpt(item, path);
  }

  Value message(const Value& item, const std::string& path) {
    const Value& role = *item.find("role");
    if (!role.is_string()) error(cat(path, ".role: expected text, found ", role.kind_name()));
    if (role == Value("function")) return message_of(item, "role", "tool", "content", path);
    if (!is_role(role.as_string())) {
      error(cat(path, ".role: \"", role.as_string().substr(0, 40),
                "\" is not one of system, user, assistant, tool, function"));
    }
    return message_of(item, "role", role.as_string(), "content", path);
  }

  // The turn with its role and content in these keys' places; its other fields as they are.
  Value message_of(const Value& item, std::string_view role_key, const std::string& role,
                   std::string_view content_key, const std::string& path) {
    Value out{Value::Object{}};
    for (const auto& [key, value] : item.as_object()) {
      const std::string at = cat(path, ".", key);
      if (key == role_key) {
        out.set("role", role);
      } else if (key == content_key) {
        out.set("content", text_of(value, role, at));
      } else if (key == "role" || key == "content") {
        if (!value.is_null()) error(cat(path, ": found both ", content_key, " and ", key));
      } else if (key == "reasoning_content" || key == "tool_calls" || key == "function_call") {
        if (!value.is_null()) set_known(out, key, value, role, at);
      } else if (!options_.columnar) {
        out.set(key, value);
      } else if (bool dropped = false; !value.is_null()) {
        out.set(key, without_nulls(value, dropped));
      }
    }
    if (out.find("content") == nullptr) {
      const auto& fields = out.as_object();
      const bool does_without =
          role == "assistant" && std::any_of(fields.begin(), fields.end(), [](const auto& field) {
            return field.first == "tool_calls" ||
                   (text::field_of(field.first) == text::Field::kReasoningContent &&
                    field.second.is_string());
          });
      if (!does_without)
        error(cat(path, ".", content_key, ": is missing; the keys are: ", keys_of(item)));
      out.set("content", "");
    }
    return out;
  }

  void set_known(Value& message, const std::string& key, const Value& value,
                 const std::string& role, const std::string& path) {
    if (key == "reasoning_content") {
      if (!value.is_string()) error(cat(path, ": expected text, found ", value.kind_name()));
      message.set(key, value);
      return;
    }
    if (value.is_array() && value.size() == 0) return;
    if (role != "assistant") error(cat(path, ": only an assistant calls tools, this is ", role));
    if (message.find("tool_calls") != nullptr) error(cat(path, ": found both forms of tool calls"));
    message.set("tool_calls", key == "tool_calls" ? tool_calls(value, path)
                                                  : Value(Value::Array{call_of(value, path)}));
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
      if (const Value* function = present(call, "function")) {
        call.set("function", function_call(*function, at + ".function"));
      } else {
        call = function_call(call, at);
      }
      if (options_.columnar) call = without_null_members(call);
      out.push_back(std::move(call));
    }
    return Value(std::move(out));
  }

  // {name, arguments} as an item of tool_calls.
  Value call_of(const Value& function, const std::string& path) {
    Value call{Value::Object{}};
    call.set("type", "function");
    call.set("function", function_call(function, path));
    return call;
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
    if (arguments->is_null() || *arguments == Value("")) {
      function.set("arguments", Value(Value::Object{}));
      add_count(notes_, "tool calls with null or empty arguments, taken as {}");
    } else if (arguments->is_string()) {
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
    return options_.columnar ? without_null_members(function) : function;
  }

  // Objects inside and out; the nulls of a list are its elements.
  static Value without_null_members(const Value& object) {
    Value out{Value::Object{}};
    for (const auto& [key, member] : object.as_object())
      if (!member.is_null()) out.set(key, member);
    return out;
  }
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
      if (list.is_null()) return {};
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
    if (!options_.columnar || tools->is_string()) return list;
    bool dropped = false;
    list = without_nulls(list, dropped);
    if (dropped) add_count(notes_, "tools of Parquet rows with null members, left out");
    return list;
  }

  Value from_share_gpt(const Value& item, const std::string& path) {
    const Value& from = *item.find("from");
    const Value* value = item.find("value");
    if (!from.is_string()) error(cat(path, ".from: expected text, found ", from.kind_name()));
    if (value == nullptr) error(cat(path, ".value: is missing; the keys are: ", keys_of(item)));
    const std::string& who = from.as_string();
    if (who == "function_call") return share_gpt_call(item, *value, path);
    const std::string role = who == "human"                              ? "user"
                             : who == "gpt"                              ? "assistant"
                             : who == "observation" || who == "function" ? "tool"
                                                                         : who;
    if (!is_role(role)) {
      error(cat(path, ".from: \"", who.substr(0, 40),
                "\" is not one of human, gpt, system, function_call, observation, function, or a "
                "role"));
    }
    return message_of(item, "from", role, "value", path);
  }

  // The value is the JSON text of one call, or of a list of them.
  Value share_gpt_call(const Value& item, const Value& value, const std::string& path) {
    const std::string at = path + ".value";
    if (!value.is_string()) error(cat(at, ": expected JSON text, found ", value.kind_name()));
    const Value parsed = json_text(value.as_string(), at);
    Value::Array calls;
    if (parsed.is_array()) {
      if (parsed.size() == 0) error(cat(at, ": an empty list of calls"));
      for (std::size_t i = 0; i < parsed.size(); ++i)
        calls.push_back(call_of(parsed.as_array()[i], cat(at, "[", i, "]")));
    } else {
      calls.push_back(call_of(parsed, at));
    }
    Value plain = item;
    plain.set("value", "");
    Value out = message_of(plain, "from", "assistant", "value", path);
    if (out.find("tool_calls") != nullptr) error(cat(path, ": found both forms of tool calls"));
    out.set("tool_calls", Value(std::move(calls)));
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

std::vector<std::string> chat_columns() {
  return {"messages", "conversations", "tools", "system"};
}

ChatRow read_chat_row(const io::Value& row, const std::string& where,
                      const ChatRowOptions& options) {
  return Reader(where, options).read(row);
}

}  // namespace glmtune::data
