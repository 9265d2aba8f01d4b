// Developer tool behind tools/compare_text.py: runs the tokenizer and the template engine over
// lines of JSON, so that a script can hold the results against other libraries.
//   text_driver tokenize FOLDER     {"text"} -> {"ids", "decoded", "plain": without added tokens}
//   text_driver render              {"template", "context"} -> {"text"} or {"error"}
#include <iostream>

#include "base/cat.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

using namespace glmtune;

namespace {

io::Value::Array array(const std::vector<std::int32_t>& ids) {
  io::Value::Array out;
  for (const auto id : ids) out.emplace_back(static_cast<std::int64_t>(id));
  return out;
}

void tokenize(const std::string& folder) {
  const text::Tokenizer tokenizer = text::Tokenizer::load(folder);
  text::EncodeCache cache;
  for (std::string line; std::getline(std::cin, line);) {
    const io::Value row = io::parse_json(line, "stdin");
    const std::string& source = row.find("text")->as_string();
    text::Encoding matched, plain;
    tokenizer.encode(source, {.match_added_tokens = true}, cache, matched);
    tokenizer.encode(source, {}, cache, plain);
    std::cout << io::to_json(io::Value::Object{{"ids", array(matched.ids)},
                                               {"decoded", tokenizer.decode(matched.ids)},
                                               {"plain", array(plain.ids)}})
              << "\n";
  }
}

void render() {
  text::RenderOptions options;
  options.now = std::tm{};
  options.now->tm_year = 126;
  options.now->tm_mday = 2;
  for (std::string line; std::getline(std::cin, line);) {
    const io::Value row = io::parse_json(line, "stdin");
    io::Value::Object out;
    try {
      const auto t = text::ChatTemplate::parse(row.find("template")->as_string(), "template");
      out.emplace_back("text", t.render(*row.find("context"), options).text);
    } catch (const text::TemplateError& e) {
      out.emplace_back("error", e.kind);
      out.emplace_back("what", e.what());
    }
    std::cout << io::to_json(out) << "\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  try {
    if (mode == "tokenize" && argc == 3) {
      tokenize(argv[2]);
    } else if (mode == "render" && argc == 2) {
      render();
    } else {
      std::cerr << "text_driver tokenize FOLDER | render\n";
      return 1;
    }
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
  return 0;
}
