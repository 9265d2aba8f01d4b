// Against Jinja2 set up as transformers sets it up: 384 renders of 8 chat templates.
#include <map>

#include "base/cat.h"
#include "text/chat_template.h"
#include "text/text_support.h"

namespace glmtune::text {
namespace {

TEST(ChatTemplateGolden, TextsErrorsAndGenerationSpansEqualJinja2) {
  GLMTUNE_NEEDS_SHARED();
  const auto rows = read_shared_lines("data/templates/golden.jsonl");
  EXPECT_EQ(rows.size(), 384U);
  std::map<std::string, ChatTemplate> templates;
  RenderOptions options;
  options.now = std::tm{};
  options.now->tm_year = 126;
  options.now->tm_mday = 2;
  int wrong = 0;
  int errors = 0;
  for (const io::Value& row : rows) {
    const std::string name = row.find("template")->as_string();
    auto at = templates.find(name);
    if (at == templates.end()) {
      const std::string path = "data/templates/" + name + ".jinja";
      at = templates.emplace(name, ChatTemplate::parse(read_shared(path), path)).first;
    }
    const io::Value* error = row.find("error");
    std::string got, want;
    try {
      const Rendered r = at->second.render(*row.find("context"), options);
      got = r.text;
      std::size_t end = 0;
      for (const Segment& s : r.segments) {
        EXPECT_EQ(s.begin, end);
        EXPECT_LT(s.begin, s.end);
        end = s.end;
      }
      EXPECT_EQ(end, r.text.size());
      for (const auto& [from, to] : r.generation) {
        got += cat('\n', from, ' ', to);
      }
    } catch (const TemplateError& e) {
      ++errors;
      got = e.kind;
      EXPECT_GT(e.line, 0);
    }
    if (error != nullptr) {
      want = error->as_string();
    } else {
      want = row.find("rendered")->as_string();
      for (const io::Value& span : row.find("assistant_byte_spans")->as_array()) {
        want += cat('\n', span.as_array()[0].as_int(), ' ', span.as_array()[1].as_int());
      }
    }
    if (got != want && ++wrong <= 5) {
      ADD_FAILURE() << name << " " << row.find("name")->as_string() << "\n got " << got << "\nwant "
                    << want;
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(errors, 4);
}

}  // namespace
}  // namespace glmtune::text
