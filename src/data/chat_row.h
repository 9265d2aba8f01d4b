#pragma once
// From a row as people have it to what a chat template takes. Accepted shapes: `messages` of
// {role, content, reasoning_content, tool_calls, tool_call_id, ...}, or ShareGPT's `conversations`
// of {from, value}; `tools` as a list or as JSON text. What is ambiguous is refused with the path
// of the field, never guessed.
#include <span>
#include <string>
#include <vector>

#include "data/pack.h"
#include "io/json.h"

namespace glmtune::data {

struct ChatRow {
  // Objects with role (system, user, assistant, tool) and content. Null content is "", lists of
  // text parts are one string, tool call arguments are objects, absent fields stay absent.
  io::Value::Array messages;
  io::Value tools;                   // array of objects; null when the row has none
  std::vector<std::string> columns;  // the row's other keys, which no template sees
  std::vector<Count> notes;
  std::string dropped;  // not empty: the row holds nothing to learn, for this reason
};

struct ChatRowOptions {
  // Content lists whose parts refer to tools are left to templates that know them.
  bool template_reads_tool_references = false;
  // The row is of a columnar file, where every row's arguments have the keys of all rows: those
  // that are null are nobody's.
  bool columnar = false;
  std::span<const std::string> unread_columns = {};  // what the file has beside the row
};

// What read_chat_row looks at.
std::vector<std::string> chat_columns();

// Throws Error: "`where`: messages[1].role: ...".
ChatRow read_chat_row(const io::Value& row, const std::string& where,
                      const ChatRowOptions& options = {});

}  // namespace glmtune::data
