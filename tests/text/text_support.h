#pragma once
// Shared by the tests of src/text: the goldens where they are at hand.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "io/json.h"
#include "support/small_tokenizer.h"
#include "text/tokenizer.h"

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

}  // namespace glmtune::text
