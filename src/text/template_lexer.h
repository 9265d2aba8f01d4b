#pragma once
// From template source to tokens, with Jinja's white space rules under trim_blocks and
// lstrip_blocks.
#include <string>
#include <string_view>
#include <vector>

namespace glmtune::text::jinja {

struct SyntaxError {
  int line;
  std::string what;
};

struct Token {
  enum class Kind {
    kData,  // text of the template
    kBlockBegin,
    kBlockEnd,
    kVariableBegin,
    kVariableEnd,
    kName,
    kString,  // text: unescaped
    kInteger,
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind = Kind::kEnd;
  std::string text;
  int line = 1;
};

// Ends with a kEnd token. Throws SyntaxError.
std::vector<Token> lex(std::string_view source);

}  // namespace glmtune::text::jinja
