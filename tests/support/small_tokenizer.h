#pragma once
// A small tokenizer for tests and fuzz targets.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/json.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace glmtune::text {

// The byte-level alphabet's spelling of bytes.
inline std::string byte_level(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    const auto b = static_cast<unsigned char>(c);
    const auto itself = [](unsigned x) {
      return (x >= 0x21 && x <= 0x7E) || (x >= 0xA1 && x <= 0xAC) || x >= 0xAE;
    };
    unsigned code = b;
    if (!itself(b)) {
      code = 256;
      for (unsigned x = 0; x < b; ++x) code += itself(x) ? 0 : 1;
    }
    append_utf8(out, code);
  }
  return out;
}

// tokenizer.json of a small tokenizer: ids 0..255 are the bytes; then one token per merge, in
// order; then added tokens. Tests change single members of it.
struct SmallTokenizer {
  std::string regex =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  std::vector<std::pair<std::string, std::string>> merges = {
      {"h", "e"}, {"l", "l"}, {"he", "ll"}, {"hell", "o"}, {" ", "hello"}, {"1", "2"}};
  std::vector<std::string> whole_words;  // tokens that no merge leads to
  std::vector<io::Value> added = {added_token("<|user|>", true), added_token("<|assistant|>", true),
                                  added_token("<think>", false), added_token("</think>", false),
                                  added_token("<|user|>x", true)};
  bool ignore_merges = true;
  bool merges_as_strings = false;
  io::Value normalizer;

  static io::Value added_token(const std::string& content, bool special) {
    return io::Value(
        io::Value::Object{{"content", content}, {"special", special}, {"normalized", false}});
  }

  io::Value value() const {
    io::Value::Object vocabulary;
    for (int b = 0; b < 256; ++b) {
      const char byte = static_cast<char>(b);
      vocabulary.emplace_back(byte_level({&byte, 1}), b);
    }
    io::Value::Array list;
    for (const auto& [a, b] : merges) {
      vocabulary.emplace_back(byte_level(a + b), static_cast<int>(vocabulary.size()));
      if (merges_as_strings) {
        list.emplace_back(byte_level(a) + " " + byte_level(b));
      } else {
        list.emplace_back(io::Value::Array{byte_level(a), byte_level(b)});
      }
    }
    for (const std::string& word : whole_words) {
      vocabulary.emplace_back(byte_level(word), static_cast<int>(vocabulary.size()));
    }
    io::Value::Array tokens;
    for (io::Value a : added) {
      a.set("id", static_cast<int>(vocabulary.size() + tokens.size()));
      tokens.push_back(a);
    }
    io::Value split = io::Value::Object{{"type", "Split"},
                                        {"pattern", io::Value::Object{{"Regex", regex}}},
                                        {"behavior", "Isolated"},
                                        {"invert", false}};
    io::Value bytes =
        io::Value::Object{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
    return io::Value::Object{
        {"added_tokens", tokens},
        {"normalizer", normalizer},
        {"pre_tokenizer", io::Value::Object{{"type", "Sequence"},
                                            {"pretokenizers", io::Value::Array{split, bytes}}}},
        {"decoder", io::Value::Object{{"type", "ByteLevel"}}},
        {"model", io::Value::Object{{"type", "BPE"},
                                    {"ignore_merges", ignore_merges},
                                    {"vocab", vocabulary},
                                    {"merges", list}}}};
  }
  Tokenizer build() const { return Tokenizer::parse(io::to_json(value()), "", "small"); }
};

}  // namespace glmtune::text
