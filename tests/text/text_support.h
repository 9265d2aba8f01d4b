#pragma once
// Shared by the tests of src/text: a small tokenizer, and the goldens where they are at hand.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "io/json.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace glmtune::text {

// The folder with the large test data; the tests that need it skip where it is not there.
inline std::string shared_folder() {
  const char* folder = std::getenv("GLMTUNE_SHARED");
  return folder == nullptr ? "" : folder;
}
#define GLMTUNE_NEEDS_SHARED() \
  if (shared_folder().empty()) GTEST_SKIP() << "GLMTUNE_SHARED is not set"

// A file, unpacked where only its .gz is there.
inline std::string read_shared(const std::string& path) {
  const std::string full = shared_folder() + "/" + path;
  std::string out;
  if (std::ifstream in(full, std::ios::binary); in) {
    std::ostringstream text;
    text << in.rdbuf();
    return std::move(text).str();
  }
  gzFile in = gzopen((full + ".gz").c_str(), "rb");
  if (in == nullptr) ADD_FAILURE() << full << " is missing";
  std::vector<char> buffer(1 << 16);
  for (int n = 0; in != nullptr && (n = gzread(in, buffer.data(), 1 << 16)) > 0;) {
    out.append(buffer.data(), static_cast<std::size_t>(n));
  }
  if (in != nullptr) gzclose(in);
  return out;
}

inline std::vector<io::Value> read_shared_lines(const std::string& path) {
  std::istringstream in(read_shared(path));
  std::vector<io::Value> rows;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) rows.push_back(io::parse_json(line, path));
  }
  return rows;
}

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
