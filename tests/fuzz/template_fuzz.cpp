// libFuzzer: any bytes as a chat template, rendered over a small conversation, end in a text or in
// a TemplateError, within the limits.
#include <cstdint>

#include "text/chat_template.h"

using namespace glmtune;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const io::Value context = io::parse_json(
      R"({"messages": [{"role": "user", "content": "a <b>"}, {"role": "assistant", "content": null,
          "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, 2.5, "y"]}}}]}],
          "tools": [{"name": "f"}], "n": 3, "bos_token": "<s>"})",
      "context");
  text::RenderOptions options;
  options.now = std::tm{};
  options.limits.max_steps = 200'000;
  options.limits.max_bytes = 32 << 20;
  try {
    const auto t =
        text::ChatTemplate::parse(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
    const text::Rendered r = t.render(context, options);
    if (!r.segments.empty() && r.segments.back().end != r.text.size()) __builtin_trap();
  } catch (const text::TemplateError&) {
  }
  return 0;
}
