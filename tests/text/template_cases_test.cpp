// Small templates against what Jinja2 made of them (tools/make_template_cases.py).
#include <fstream>
#include <set>

#include "text/chat_template.h"
#include "text/text_support.h"

namespace glmtune::text {
namespace {

TEST(TemplateCases, EqualJinja2) {
  std::ifstream in(GLMTUNE_FIXTURES "/text/template_cases.jsonl");
  std::string line;
  ASSERT_TRUE(std::getline(in, line));
  const io::Value context = *io::parse_json(line, "context").find("context");
  RenderOptions options;
  options.now = std::tm{};
  options.now->tm_year = 126;
  options.now->tm_mday = 2;
  options.now->tm_hour = 3;
  options.now->tm_min = 4;
  options.now->tm_sec = 5;
  int cases = 0;
  while (std::getline(in, line)) {
    const io::Value row = io::parse_json(line, "case");
    const std::string& source = row.find("template")->as_string();
    std::string got, kind;
    try {
      got = ChatTemplate::parse(source, "case").render(context, options).text;
    } catch (const TemplateError& e) {
      kind = e.kind;
      got = e.what();
    }
    ++cases;
    if (const io::Value* error = row.find("error")) {
      // Unknown filters and tests are found when they are reached, not while parsing.
      std::string want = error->as_string();
      if (want == "SyntaxError") want = "TemplateSyntaxError";
      if (want == "TemplateAssertionError") want = "TemplateRuntimeError";
      EXPECT_EQ(kind, want) << source << "\n got " << got;
    } else {
      EXPECT_EQ(got, row.find("rendered")->as_string()) << source;
    }
  }
  EXPECT_GT(cases, 400);
}

}  // namespace
}  // namespace glmtune::text
