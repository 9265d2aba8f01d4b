#include "text/chat_template.h"

#include <filesystem>
#include <fstream>

#include "base/cat.h"
#include "support/message_of.h"
#include "text/encode_rendered.h"
#include "text/text_support.h"

namespace glmtune::text {
namespace {

io::Value messages(std::vector<std::pair<std::string, std::string>> turns) {
  io::Value::Array list;
  for (const auto& [role, content] : turns) {
    list.emplace_back(io::Value::Object{{"role", role}, {"content", content}});
  }
  return io::Value::Object{{"messages", list}};
}

Rendered render(const std::string& source, const io::Value& context) {
  return ChatTemplate::parse(source, "t").render(context);
}

// One line per segment: text, origin (t, s, d), message, field.
std::string shown(const Rendered& r) {
  std::string out;
  for (const Segment& s : r.segments) {
    out += '[';
    out.append(r.text, s.begin, s.end - s.begin);
    out += ' ';
    out += "tsd"[static_cast<int>(s.origin)];
    out += std::to_string(s.message);
    if (s.field != Field::kNone) {
      constexpr const char* kNames[] = {"",      "role",  "content", "reasoning",
                                        "calls", "tools", "other"};
      out += kNames[static_cast<int>(s.field)];
    }
    out += ']';
  }
  return out;
}

std::string error_of(const std::string& source, const io::Value& context = io::Value::Object{},
                     const RenderOptions& options = {}) {
  try {
    ChatTemplate::parse(source, "t").render(context, options);
  } catch (const TemplateError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Macros, RefuseParametersThatPythonRefuses) {
  EXPECT_NE(error_of("{% macro m(caller) %}{{ caller }}{% endmacro %}").find("needs a default"),
            std::string::npos);
  EXPECT_EQ(error_of("{% macro m(caller) %}x{% endmacro %}{{ m(1) }}"), "no error");
  EXPECT_NE(error_of("{% macro m(a, a) %}{% endmacro %}").find("duplicate parameter 'a'"),
            std::string::npos);
}

TEST(Provenance, LiteralsBelongToTheTurnThatWritesThem) {
  const Rendered r =
      render("<s>{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{{ '.' }}{% endfor %}<e>",
             messages({{"user", "hi"}, {"assistant", "yo"}}));
  EXPECT_EQ(r.text, "<s><user>hi\n.<assistant>yo\n.<e>");
  EXPECT_EQ(shown(r),
            "[<s> t-1][< t0][user d0role][> t0][hi d0content][\n. t0]"
            "[< t1][assistant d1role][> t1][yo d1content][\n. t1][<e> t-1]");
}

TEST(Provenance, StringOperationsKeepIt) {
  const auto one = [](const std::string& expression) {
    return shown(render("{% set c = messages[0].content %}{{ " + expression + " }}",
                        messages({{"user", " a,b "}})));
  };
  EXPECT_EQ(one("'x' + c + 'y'"), "[x t-1][ a,b  d0content][y t-1]");
  EXPECT_EQ(one("'x' ~ c ~ 1"), "[x t-1][ a,b  d0content][1 t-1]");
  EXPECT_EQ(one("c.strip()"), "[a,b d0content]");
  EXPECT_EQ(one("('<' + c)[:3]"), "[< t-1][ a d0content]");
  EXPECT_EQ(one("c.split(',')[1]"), "[b  d0content]");
  EXPECT_EQ(one("c.split(',') | join('|')"), "[ a d0content][| t-1][b  d0content]");
  EXPECT_EQ(one("c.replace(',', '<>')"), "[ a d0content][<> t-1][b  d0content]");
  EXPECT_EQ(one("'a-b' | replace('-', c.strip())"), "[a t-1][a,b d0content][b t-1]");
  EXPECT_EQ(one("('<' ~ c.strip()) | upper"), "[< t-1][A,B d0content]");
  EXPECT_EQ(one("('<' ~ c.strip()) | title"), "[< t-1][A,b d0content]");
  EXPECT_EQ(one("'<%s>' % c.strip()"), "[< t-1][a,b d0content][> t-1]");
  EXPECT_EQ(one("'<{}>'.format(c.strip())"), "[< t-1][a,b d0content][> t-1]");
  EXPECT_EQ(one("c[::-1]"), "[ b,a  d0content]");
  EXPECT_EQ(one("c | tojson"), "[\" a,b \" d0content]");
  EXPECT_EQ(one("[1, c] | tojson"), "[[1, \" a,b \"] d0content]");
  EXPECT_EQ(one("[1, c]"), "[[1, ' a,b '] d0content]");
  EXPECT_EQ(one("c | length"), "[5 t-1]");
}

TEST(Provenance, FollowsMacrosCapturesAndNamespaces) {
  const io::Value two = messages({{"user", "a"}, {"assistant", "b"}});
  EXPECT_EQ(shown(render("{% macro w(x) %}<{{ x }}>{% endmacro %}"
                         "{% for m in messages %}{{ w(m.content) }}{% endfor %}",
                         two)),
            "[< t0][a d0content][> t0][< t1][b d1content][> t1]");
  EXPECT_EQ(shown(render("{% set ns = namespace(out='') %}{% for m in messages %}"
                         "{% set ns.out = ns.out ~ '<' ~ m.content %}{% endfor %}{{ ns.out }}",
                         two)),
            "[< t0][a d0content][< t1][b d1content]");
  EXPECT_EQ(shown(render("{% set sep = '|' %}{% for m in messages[1:] %}{% set x %}{{ sep }}!"
                         "{% endset %}{{ x }}{% endfor %}",
                         two)),
            "[|! t1]");
}

TEST(Provenance, ALoopOverPartOfTheMessagesKnowsTheirIndices) {
  const io::Value three = messages({{"system", "s"}, {"user", "a"}, {"assistant", "b"}});
  EXPECT_EQ(shown(render("{% for m in messages | rejectattr('role', 'equalto', 'user') %}"
                         "{% for c in m.content %}.{% endfor %}{% endfor %}",
                         three)),
            "[. t0][. t2]");
  EXPECT_EQ(shown(render("{% for m in messages | reverse %}.{% endfor %}", three)),
            "[. t2][. t1][. t0]");
}

TEST(Provenance, OtherVariablesAreSettingsAndToolsAreData) {
  io::Value context = messages({{"user", "a"}});
  context.set("bos_token", "<bos>");
  context.set("tools", io::Value::Array{io::Value::Object{{"name", "f"}}});
  context.set("documents", io::Value::Array{"doc"});
  EXPECT_EQ(shown(render("{{ bos_token }}{{ tools[0].name }}{{ tools | tojson }}"
                         "{{ documents[0] }}{% for m in messages %}{{ bos_token }}{% endfor %}",
                         context)),
            "[<bos> s-1][f[{\"name\": \"f\"}] d-1tools][doc d-1other][<bos> s0]");
}

TEST(Provenance, FieldsOfAMessage) {
  const io::Value context = io::Value::Object{
      {"messages",
       io::Value::Array{io::Value::Object{
           {"role", "assistant"},
           {"reasoning_content", "r"},
           {"tool_calls", io::Value::Array{io::Value::Object{
                              {"function", io::Value::Object{{"name", "f"}, {"n", 5}}}}}},
           {"name", "n"}}}}};
  EXPECT_EQ(shown(render("{% for m in messages %}{{ m.reasoning_content }}"
                         "{% for c in m.tool_calls %}{{ c.function.name }}{{ c.function.n }}"
                         "{% for k, v in c.function.items() %}{{ k }}{% endfor %}{% endfor %}"
                         "{{ m.name }}{% endfor %} {{ messages[0] }}",
                         context))
                .substr(0, 60),
            "[r d0reasoning][f5namen d0calls][n d0other][  t-1][{'role': ");
}

TEST(GenerationBlocks, AreByteSpansOfTheText) {
  const Rendered r = render(
      "{% for m in messages %}\u00E9{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}",
      messages({{"user", "ab"}, {"user", ""}}));
  EXPECT_EQ(r.generation, (std::vector<std::pair<std::size_t, std::size_t>>{{2, 4}, {6, 6}}));
  EXPECT_NE(error_of("{% macro m() %}{% generation %}{% endgeneration %}{% endmacro %}{{ m() }}")
                .find("inside a macro"),
            std::string::npos);
}

TEST(EncodeRendered, UsersTextNeverBecomesAControlToken) {
  const Tokenizer tokenizer = SmallTokenizer().build();
  EncodeCache cache;
  const Rendered r = render("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}",
                            messages({{"user", "a<|user|><think>"}, {"assistant", "hello"}}));
  const RenderedTokens safe = encode_rendered(tokenizer, r, cache);
  EXPECT_EQ(safe.control_spellings, 2U);
  std::vector<std::int32_t> control;
  for (std::size_t i = 0; i < safe.tokens.ids.size(); ++i) {
    if (safe.tokens.ids[i] >= 262) control.push_back(safe.tokens.ids[i]);
  }
  EXPECT_EQ(control, (std::vector<std::int32_t>{262, 263}));  // the role markers alone
  EXPECT_EQ(tokenizer.decode(safe.tokens.ids), r.text);
  const RenderedTokens open = encode_rendered(tokenizer, r, cache, {.allow_control_tokens = true});
  EXPECT_EQ(open.tokens.ids, (std::vector<std::int32_t>{262, 'a', 262, 264, 263, 259}));
  EXPECT_EQ(open.control_spellings, 0U);
}

TEST(EncodeRendered, ARoleThatIsNoPlainWordIsUsersText) {
  const Tokenizer tokenizer = SmallTokenizer().build();
  EncodeCache cache;
  const Rendered r = render("{{ messages[0].role }}", messages({{"<|user|>", ""}}));
  EXPECT_EQ(encode_rendered(tokenizer, r, cache).control_spellings, 1U);
}

TEST(EncodeRendered, WordsAreMergedAcrossTheBordersOfPieces) {
  const Tokenizer tokenizer = SmallTokenizer().build();
  EncodeCache cache;
  const RenderedTokens t = encode_rendered(
      tokenizer, render("he{{ messages[0].content }}", messages({{"user", "llo"}})), cache);
  EXPECT_EQ(t.tokens.ids, (std::vector<std::int32_t>{259}));
  EXPECT_EQ(t.tokens.offsets, (std::vector<ByteRange>{{0, 5}}));
}

TEST(TemplateErrors, NameTheLineAndTheMessage) {
  const io::Value two = messages({{"user", "a"}, {"assistant", "b"}});
  const std::string source =
      "{% for m in messages %}\n{{ m.content }}\n{% if m.role == 'assistant' %}\n"
      "{{ m.missing.deeper }}\n{% endif %}\n{% endfor %}";
  const std::string what = error_of(source, two);
  EXPECT_EQ(what,
            "t:4: UndefinedError: 'dict object' has no attribute 'missing' "
            "(while rendering messages[1])");
  EXPECT_EQ(error_of("\n\n{{ 1 + }}").substr(0, 26), "t:3: TemplateSyntaxError: ");
  EXPECT_EQ(error_of("\n{{ raise_exception('no ' ~ 'way') }}"), "t:2: TemplateError: no way");
}

TEST(TemplateLimits, HostileTemplatesEndInAnError) {
  const auto limited = [](const std::string& source) {
    RenderOptions options;
    options.limits.max_steps = 2'000'000;
    options.limits.max_bytes = 64 << 20;
    return error_of(source, io::Value::Object{}, options);
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_PRED2(has, limited("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), "RecursionError");
  EXPECT_PRED2(has, limited("{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}"),
               "RecursionError");
  EXPECT_PRED2(has,
               limited("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}"
                       "{% endfor %}"),
               "LimitError");
  EXPECT_PRED2(has,
               limited("{% set ns = namespace(s='abcdefgh') %}{% for i in range(60) %}"
                       "{% set ns.s = ns.s + ns.s %}{% endfor %}"),
               "LimitError");
  EXPECT_PRED2(has, limited("{{ 'x' * 99999999999 }}"), "Error");
  EXPECT_PRED2(has, limited("{{ [1] * 99999999999 }}"), "Error");
  EXPECT_PRED2(has, limited("{{ 'x'.center(99999999999) }}"), "Error");
  EXPECT_PRED2(has, limited("{{ '%99999999d' % 1 }}"), "ValueError");
  // Shared lists that print exponentially long; a namespace inside itself; lists of lists of ...
  EXPECT_PRED2(has,
               limited("{% set ns = namespace(l=[1]) %}{% for i in range(60) %}"
                       "{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}"),
               "LimitError");
  EXPECT_PRED2(has,
               limited("{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}"
                       "{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}"
                       "{{ ns.a == ns.b }}"),
               "LimitError");
  EXPECT_PRED2(has, limited("{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns.a | tojson }}"),
               "TypeError");
  EXPECT_PRED2(has,
               limited("{% set ns = namespace(l=[]) %}{% for i in range(5000) %}"
                       "{% set ns.l = [ns.l] %}{% endfor %}"),
               "RecursionError");
  const auto repeated = [](const std::string& s, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += s;
    return out;
  };
  for (const char* open : {"(", "[", "{{", "-", "not ", "x.y(", "1 if ", "1 + ", "a or ", "a.",
                           "a|", "{1:", "x[", "~"}) {
    EXPECT_PRED2(has, limited("{{ " + repeated(open, 100'000)), "TemplateSyntaxError");
  }
  EXPECT_PRED2(has, limited(repeated("{% if 1 %}", 100'000)), "TemplateSyntaxError");
  EXPECT_PRED2(has, limited(repeated("{% if 1 %}{% elif 1 %}", 10'000)), "TemplateSyntaxError");
  EXPECT_PRED2(has, limited("{{ 1" + repeated(" + 1", 10'000) + " }}"), "TemplateSyntaxError");
}

TEST(TemplateLimits, ALongChainOfNamespacesIsTakenApart) {
  const Rendered r = render(
      "{% set first = namespace(next=none) %}{% set ns = namespace(at=first) %}"
      "{% for i in range(50000) %}{% set new = namespace(next=none) %}"
      "{% set at = ns.at %}{% set at.next = new %}{% set ns.at = new %}{% endfor %}done",
      io::Value::Object{});
  EXPECT_EQ(r.text, "done");
}

TEST(ChatTemplate, KnowsWhatItMentions) {
  const ChatTemplate t = ChatTemplate::parse(
      "{% for m in messages %}{{ m.role }}{{ m['content'] }}{% endfor %}"
      "{% if 'thinking' in m %}{% endif %}{{ enable_thinking }}",
      "t");
  for (const char* name : {"messages", "role", "content", "thinking", "enable_thinking"}) {
    EXPECT_TRUE(t.mentions(name)) << name;
  }
  EXPECT_FALSE(t.mentions("reasoning_content"));
  EXPECT_FALSE(t.has_generation_blocks());
  EXPECT_TRUE(
      ChatTemplate::parse("{% generation %}{% endgeneration %}", "t").has_generation_blocks());
}

// chr(number) of a user's number is a user's text.
TEST(ChatTemplate, NumbersOfAMessageThatTranslateWritesAreItsData) {
  const io::Value context = io::parse_json(
      R"({"messages": [{"role": "user", "content": "a", "n": 124}], "n": 124})", "t");
  const auto origin = [&](const std::string& number) {
    const auto r =
        ChatTemplate::parse(cat("{{ 'x'.translate({120: ", number, "}) }}"), "t").render(context);
    EXPECT_EQ(r.text, "|");
    return r.segments.at(0).origin;
  };
  EXPECT_EQ(origin("messages[0].n"), Origin::kData);
  EXPECT_EQ(origin("n"), Origin::kSetting);
  EXPECT_EQ(origin("124"), Origin::kTemplate);
}

TEST(ChatTemplate, NamesTheFieldsThatItDidNotReadOfAMessage) {
  const auto unread = [](const std::string& source) {
    const io::Value context = io::parse_json(
        R"({"messages": [{"role": "user", "content": "a", "name": "n"}, {"role": "bot", "x": 1}]})",
        "t");
    std::string out;
    for (const auto& [message, key] : ChatTemplate::parse(source, "t").render(context).unread)
      out += cat(message, key, " ");
    return out;
  };
  EXPECT_EQ(unread("{% for m in messages %}{{ m.role }}{{ m['content'] }}{% endfor %}"),
            "0name 1x ");
  EXPECT_EQ(unread("{{ messages[0].name }}{{ messages[1].get('role') }}"), "0role 0content 1x ");
  EXPECT_EQ(unread("{{ 'x' in messages[1] }}{{ messages[0] | tojson }}"), "1role ");
  EXPECT_EQ(unread("{% for m in messages %}{% for k in m %}{{ m[k] }}{% endfor %}{% endfor %}"),
            "");
  for (const char* filter : {"urlencode", "xmlattr", "pprint"})
    EXPECT_EQ(unread(cat("{{ messages[0] | ", filter, " }}")), "1role 1x ") << filter;
  EXPECT_EQ(unread(""), "0role 0content 0name 1role 1x ");
}

TEST(ChatTemplate, IsFoundInACheckpointFolder) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "glmtune_chat_template";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  EXPECT_THROW(ChatTemplate::load(folder.string()), Error);
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder / name) << text;
  };
  write(
      "tokenizer_config.json",
      R"({"chat_template": [{"name": "x", "template": "no"}, {"name": "default", "template": "A"}]})");
  EXPECT_EQ(ChatTemplate::load(folder.string()).source(), "A");
  write("tokenizer_config.json", R"({"chat_template": "B"})");
  EXPECT_EQ(ChatTemplate::load(folder.string()).source(), "B");
  write("chat_template.jinja", "C");
  EXPECT_EQ(ChatTemplate::load(folder.string()).source(), "C");
  const auto refused = [&](const char* name, const std::string& text, const std::string& said) {
    write(name, text);
    const std::string message = test::message_of([&] { ChatTemplate::load(folder.string()); });
    EXPECT_EQ(message, (folder / name).string() + said);
  };
  // The other one that is there is not what the checkpoint means.
  refused("chat_template.jinja", "", ": is empty; expected a chat template");
  refused("chat_template.jinja", "a\n\xff", ": is not UTF-8 text (line 2)");
  std::filesystem::remove(folder / "chat_template.jinja");
  refused("tokenizer_config.json", R"({"chat_template": ""})",
          " (chat_template): is empty; expected a chat template");
  std::filesystem::remove_all(folder);
}

TEST(ChatTemplate, ToolsAreRenderedByTheTemplateForTools) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "glmtune_two_templates";
  const std::filesystem::path more = folder / "additional_chat_templates";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(more);
  io::Value plain = io::Value::Object{{"messages", io::Value::Array{}}, {"tools", io::Value()}};
  io::Value with_tools = plain;
  with_tools.set("tools", io::Value::Array{io::Value::Object{{"name", "f"}}});
  const auto expect_two = [&](const char* default_text) {
    const ChatTemplate t = ChatTemplate::load(folder.string());
    EXPECT_EQ(t.render(plain).text, default_text);
    EXPECT_EQ(t.render(with_tools).text, "T{ }");
    EXPECT_EQ(t.for_context(with_tools).source(), "T{{ '{ }' }}");
    EXPECT_EQ(t.sources(), std::string(default_text) + '\0' + "T{{ '{ }' }}");
    EXPECT_EQ(t.variants().size(), 2U);
  };
  std::ofstream(folder / "tokenizer_config.json") << R"({"chat_template": [
      {"name": "default", "template": "A"}, {"name": "tool_use", "template": "T{{ '{ }' }}"}]})";
  expect_two("A");
  std::ofstream(folder / "tokenizer_config.json") << R"({"chat_template": [
      {"name": "default", "template": "A"}, {"name": "rag", "template": "R"}]})";
  EXPECT_EQ(ChatTemplate::load(folder.string()).render(with_tools).text, "A");
  std::ofstream(folder / "tokenizer_config.json") << R"({"chat_template": [
      {"name": "rag", "template": "R"}, {"name": "tool_use", "template": "T"}]})";
  try {
    (void)ChatTemplate::load(folder.string());
    ADD_FAILURE() << "loaded";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("\"rag\", \"tool_use\""), std::string::npos) << e.what();
  }
  std::ofstream(folder / "chat_template.jinja") << "C";
  EXPECT_EQ(ChatTemplate::load(folder.string()).render(with_tools).text, "C");
  std::ofstream(more / "tool_use.jinja") << "T{{ '{ }' }}";
  expect_two("C");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace glmtune::text
