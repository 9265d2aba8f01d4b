// What users report of chat templates and tokenizers (user_reports.md 2a), as far as no other test
// of this folder shows it. 9 and 11 in more spellings: template_cases_test.cpp, against Jinja2; 16:
// tokenizer_golden_test.cpp; 17: EncodeRendered.
#include "text/chat_template.h"
#include "text/text_support.h"

namespace glmtune::text {
namespace {

std::string render(const std::string& source, const std::string& context) {
  return ChatTemplate::parse(source, "t").render(io::parse_json(context, "context")).text;
}

std::string error_of(const std::string& source, const std::string& context) {
  try {
    return "rendered: " + render(source, context);
  } catch (const TemplateError& e) {
    return e.what();
  }
}

constexpr const char* kValues =
    R"({"x": {"b": 1, "a": "é/—", "l": ["a", "b"], "f": [1e-5, 1.0, 1e16, 0.1, true, null],
        "e": {}}})";

// 11: what json.dumps(ensure_ascii=False) writes, byte for byte.
TEST(TemplateJson, IsPythonsByDefault) {
  EXPECT_EQ(render("{{ x | tojson }}", kValues),
            R"({"b": 1, "a": "é/—", "l": ["a", "b"], "f": [1e-05, 1.0, 1e+16, 0.1, true, null],)"
            R"( "e": {}})");
}

// 8: the filter takes Python's keywords.
TEST(TemplateJson, TakesPythonsKeywords) {
  EXPECT_EQ(render("{{ x.a | tojson(ensure_ascii=True) }}", kValues), R"("\u00e9/\u2014")");
  EXPECT_EQ(render("{{ x.a | tojson(ensure_ascii=False) }}", kValues), R"("é/—")");
  EXPECT_EQ(render("{{ x.l | tojson(indent=2) }}", kValues), "[\n  \"a\",\n  \"b\"\n]");
  EXPECT_EQ(render("{{ x | tojson(separators=(',', ':'), sort_keys=True) }}", kValues),
            R"({"a":"é/—","b":1,"e":{},"f":[1e-05,1.0,1e+16,0.1,true,null],"l":["a","b"]})");
  EXPECT_NE(error_of("{{ x | tojson(colour=1) }}", kValues).find("colour"), std::string::npos);
}

// 9: break and continue; a generation block changes no text.
TEST(TemplateStatements, LoopsBreakAndContinue) {
  constexpr const char* kList = R"({"m": [1, 2, 3]})";
  EXPECT_EQ(
      render("{% for i in m %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", kList),
      "1");
  EXPECT_EQ(
      render("{% for i in m %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}", kList),
      "13");
  EXPECT_EQ(render("a{% generation %}{{ m.0 }}{% endgeneration %}b", kList), "a1b");
}

// 10: a number after the dot is an index, also into a string; beyond the end it is undefined.
TEST(TemplateStatements, ANumericAttributeIsAnIndex) {
  EXPECT_EQ(render("{{ m.0 }}{{ m[0] }}", R"({"m": ["a", "b"]})"), "aa");
  EXPECT_EQ(render("{{ m.0.type }}{{ s.1 }}", R"({"m": [{"type": "text"}], "s": "xyz"})"), "texty");
  EXPECT_EQ(render("{{ m.5 }}|{{ m.5 is defined }}", R"({"m": ["a"]})"), "|False");
}

// 10: an error names the line of the template that is wrong and the message it was about; nothing
// is rendered instead.
TEST(TemplateStatements, AnErrorNamesItsLineAndMessage) {
  const std::string what = error_of(
      "{% for m in messages %}\n{{ m.content }}\n{{ m.content.0.text.upper() }}\n"
      "{% endfor %}",
      R"({"messages": [{"role": "user", "content": [{"text": "a"}]},
                                {"role": "tool", "content": [{"output": "b"}]}]})");
  EXPECT_EQ(what.substr(0, 4), "t:3:") << what;
  EXPECT_NE(what.find("messages[1]"), std::string::npos) << what;
}

// 12: the names of the thinking switch and what unset means differ between templates.
TEST(TemplateSwitches, UnsetTrueAndFalseRenderAsJinja2RendersThem) {
  GLMTUNE_NEEDS_SHARED();
  const std::string turns =
      R"({"messages": [{"role": "user", "content": "2+2?"},
          {"role": "assistant", "content": "4", "reasoning_content": "two and two"},
          {"role": "user", "content": "sure?"},
          {"role": "assistant", "content": "yes", "reasoning_content": "again"}], "tools": null,
          "add_generation_prompt": false)";
  const auto rendered = [&](const std::string& name, const std::string& option) {
    return render(read_shared("data/templates/" + name + ".jinja"),
                  turns + (option.empty() ? "" : ", " + option) + "}");
  };
  const std::string head = "[gMASK]<sop><|system|>Reasoning Effort: Max<|user|>2+2?<|assistant|>";
  const std::string tail = "4<|user|>sure?<|assistant|><think>again</think>yes";
  const std::string kept = head + "<think>two and two</think>" + tail;
  EXPECT_EQ(rendered("glm-5.3-flash", ""), kept);
  EXPECT_EQ(rendered("glm-5.3-flash", "\"clear_thinking\": false"), kept);
  EXPECT_EQ(rendered("glm-5.3-flash", "\"clear_thinking\": true"), head + "<think></think>" + tail);
  const auto older = [](const std::string& mark) {
    return "[gMASK]<sop><|user|>\n2+2?" + mark +
           "<|assistant|>\n<think></think>\n4<|user|>\nsure?" + mark +
           "<|assistant|>\n<think>again</think>\nyes";
  };
  EXPECT_EQ(rendered("glm-4.6", ""), older(""));
  EXPECT_EQ(rendered("glm-4.6", "\"enable_thinking\": true"), older(""));
  EXPECT_EQ(rendered("glm-4.6", "\"enable_thinking\": false"), older("/nothink"));
}

// 16: GLM's split takes up to three digits at once and keeps CJK, emoji, line ends and marks.
TEST(TokenizerReports, EveryKindOfTextComesBack) {
  const Tokenizer tokenizer = Tokenizer::load(GLMTUNE_SOURCE "/examples/tiny");
  for (const char* text :
       {"1234567", "2+2=4", "王 说：你好", "🙂👍🏽", "a\r\nb\r\n", "a\u00A0b", "   leading",
        "e\u0301 \u0915\u094D\u0937", "tab\tand\vmore", ""})
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text).ids), text) << text;
}

}  // namespace
}  // namespace glmtune::text
