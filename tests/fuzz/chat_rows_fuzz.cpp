// libFuzzer: any bytes as a line of a chat data set end in labelled tokens or in an Error. The JSON
// that was read is written and read back as the same value; no text of a message becomes a control
// token.
#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "data/chat_labels.h"
#include "data/chat_row.h"
#include "support/small_tokenizer.h"
#include "text/encode_rendered.h"

using namespace glmtune;

namespace {

constexpr const char* kTemplate =
    "{%- for m in messages %}<|{{ m.role }}|>"
    "{%- if m.role == 'assistant' %}<think>{{ m.reasoning_content or '' }}</think>{% endif %}"
    "{{- m.content }}"
    "{%- for c in m.tool_calls or [] %}<call>{{ c.function.name }}"
    "{%- for k, v in c.function.arguments.items() %}{{ k }}={{ v|tojson }}{% endfor %}"
    "{%- endfor %}{%- endfor %}"
    "{%- if add_generation_prompt %}<|assistant|><think>{% endif %}";

struct Tools {
  text::Tokenizer tokenizer = text::SmallTokenizer{}.build();
  text::ChatTemplate chat_template = text::ChatTemplate::parse(kTemplate, "template");
  data::TurnFrame frame =
      data::probe_turns(chat_template, tokenizer, io::Value(io::Value::Object{}));
  text::EncodeCache cache;
};

void label(Tools& tools, const data::ChatRow& row) {
  io::Value context{io::Value::Object{}};
  context.set("messages", io::Value(row.messages));
  context.set("tools", row.tools);
  context.set("add_generation_prompt", false);
  const text::Rendered rendered = tools.chat_template.render(context);
  const auto encoded = text::encode_rendered(tools.tokenizer, rendered, tools.cache);
  for (const std::string_view marker : {"<think>", "</think>"}) {
    const auto id = tools.tokenizer.token_id(marker).value();
    for (std::size_t i = 0; i < encoded.tokens.ids.size(); ++i) {
      if (encoded.tokens.ids[i] != id) continue;
      const std::size_t at = encoded.tokens.offsets[i].begin;
      const auto segment =
          std::find_if(rendered.segments.begin(), rendered.segments.end(),
                       [&](const text::Segment& s) { return at >= s.begin && at < s.end; });
      if (segment == rendered.segments.end() || segment->origin == text::Origin::kData) {
        __builtin_trap();
      }
    }
  }
  for (const bool masked : {false, true}) {
    data::ChatSettings settings;
    settings.mask_reasoning_content = settings.mask_history = settings.mask_empty_think = masked;
    const data::ChatLabels labels =
        data::label_chat(rendered, encoded.tokens, row.messages, tools.frame, tools.tokenizer,
                         settings, tools.chat_template.has_generation_blocks());
    if (labels.labels.size() != encoded.tokens.ids.size()) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Tools tools;
  try {
    const io::Value value =
        io::parse_json({reinterpret_cast<const char*>(data), size}, "fuzz.jsonl:1");
    const std::string json = io::to_json(value);
    if (io::to_json(io::parse_json(json, "again")) != json) __builtin_trap();
    const data::ChatRow row = data::read_chat_row(value, "fuzz.jsonl:1");
    if (row.dropped.empty()) label(tools, row);
  } catch (const MachineError&) {
    __builtin_trap();
  } catch (const Error&) {
  }
  return 0;
}
