// The tokenizer, one thread, processor time (other programs on the machine do not count):
//   text_bench FOLDER TEXTS.jsonl
// Loads the tokenizer of FOLDER and encodes the "text" of every row, with and without a cache that
// knows the words already. `tools/compare_text.py BUILD speed FOLDER TEXTS.jsonl` sets the figures
// beside the official library's.
#include <algorithm>
#include <ctime>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "bench.h"
#include "io/json.h"
#include "text/tokenizer.h"

namespace {

using namespace glmtune;

double seconds_since(std::clock_t from) {
  return static_cast<double>(std::clock() - from) / CLOCKS_PER_SEC;
}

double best_of(int rounds, const auto& work) {
  double best = 1e9;
  for (int i = 0; i < rounds; ++i) {
    const std::clock_t begin = std::clock();
    work();
    best = std::min(best, seconds_since(begin));
  }
  return best;
}

void run(const std::string& folder, const std::string& file) {
  const double load = best_of(3, [&] { (void)text::Tokenizer::load(folder); });
  const text::Tokenizer tokenizer = text::Tokenizer::load(folder);
  std::vector<std::string> texts;
  std::size_t bytes = 0;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    texts.push_back(io::parse_json(line, file).find("text")->as_string());
    bytes += texts.back().size();
  }
  std::size_t tokens = 0;
  const auto encode_all = [&](text::EncodeCache& cache) {
    text::Encoding out;
    tokens = 0;
    for (const std::string& t : texts) {
      out.ids.clear();
      out.offsets.clear();
      tokenizer.encode(t, {.match_added_tokens = true}, cache, out);
      tokens += out.ids.size();
    }
  };
  const double cold = best_of(5, [&] {
    text::EncodeCache cache;
    encode_all(cache);
  });
  text::EncodeCache warm_cache;
  const double warm = best_of(5, [&] { encode_all(warm_cache); });
  const auto rate = [](std::size_t n, double seconds) {
    return static_cast<double>(n) / seconds / 1e6;
  };
  std::cout << io::to_json(io::Value::Object{{"load_s", load},
                                             {"tokens", static_cast<std::int64_t>(tokens)},
                                             {"MB_per_s", rate(bytes, cold)},
                                             {"M_tokens_per_s", rate(tokens, cold)},
                                             {"M_tokens_per_s_warm", rate(tokens, warm)}})
            << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "text_bench FOLDER TEXTS.jsonl\n";
    return 1;
  }
  return bench::report_errors([&] {
    run(argv[1], argv[2]);
    return 0;
  });
}
