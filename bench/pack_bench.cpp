// Tokenising and packing a large chat data set, as a run does before its first step:
//   pack_bench MODEL_FOLDER ROWS.jsonl [conversations=100000] [threads=2] [pack=4096] [work=FOLDER]
// MODEL_FOLDER holds tokenizer and chat template. The conversations are generated: the messages of
// ROWS.jsonl with their sentences dealt anew. They are written to the work folder (default: a
// temporary one) beside the cache; the second opening reads the cache, as the other ranks and a
// resumed run do.
#include <sys/resource.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "base/cat.h"
#include "base/error.h"
#include "bench.h"
#include "data/dataset.h"
#include "io/files.h"
#include "io/json.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace {

using namespace glmtune;
namespace fs = std::filesystem;

std::vector<std::string> sentences_of(const std::string& file) {
  std::vector<std::string> out;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const io::Value row = io::parse_json(line, file);
    for (const io::Value& message : row.find("messages")->as_array()) {
      const io::Value* content = message.find("content");
      if (content == nullptr || !content->is_string()) continue;
      const std::string& text = content->as_string();
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find_first_of(".!?\n", at), text.size() - 1) + 1;
        out.push_back(text.substr(at, end - at));
        at = end;
      }
    }
  }
  if (out.size() < 100) fail(cat(file, ": holds too few sentences"));
  return out;
}

void write_conversations(const std::string& path, const std::vector<std::string>& sentences,
                         std::int64_t rows) {
  std::mt19937_64 rng(1);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(rng() % n); };
  const auto message = [&](const char* role, std::size_t most) {
    std::string text;
    for (std::size_t n = 1 + below(most); n > 0; --n) text += sentences[below(sentences.size())];
    return io::Value(io::Value::Object{{"role", role}, {"content", text}});
  };
  io::AtomicFile out(path);
  std::string block;
  for (std::int64_t i = 0; i < rows; ++i) {
    io::Value::Array messages;
    for (std::size_t turns = 1 + below(3); turns > 0; --turns) {
      messages.push_back(message("user", 4));
      messages.push_back(message("assistant", 12));
    }
    block += io::to_json(io::Value::Object{{"messages", messages}}) + "\n";
    if (block.size() > (1U << 20U) || i + 1 == rows) {
      out.append(block);
      block.clear();
    }
  }
  out.commit();
}

void run(const std::string& model, const std::string& rows_file, const bench::Arguments& args) {
  using bench::seconds;
  const std::string& work = args.text("work");
  const std::int64_t rows = args.number("conversations");
  fs::create_directories(work);
  const std::string file = cat(work, "/", rows, ".jsonl");
  if (!fs::exists(file)) write_conversations(file, sentences_of(rows_file), rows);
  fs::remove_all(work + "/cache");

  data::TextTools tools;
  const double load = seconds();
  tools.tokenizer = std::make_shared<text::Tokenizer>(text::Tokenizer::load(model));
  tools.chat_template = std::make_shared<text::ChatTemplate>(text::ChatTemplate::load(model));
  tools.tokenizer_folder = model;
  std::printf("load: %.2f s\n", seconds() - load);
  data::ChatSettings chat;
  chat.paths = {file};
  data::PackingSettings packing;
  packing.packed_sequence_size = args.number("pack");
  packing.threads = static_cast<int>(args.number("threads"));
  packing.cache_folder = work + "/cache";
  for (const char* what : {"made", "from the cache"}) {
    const double start = seconds();
    const auto source = data::open_dataset(chat, packing, tools);
    const double took = seconds() - start;
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    std::printf(
        "%s: %lld rows, %lld packs, %.1f M tokens in %.2f s: %.2f M tokens/s; peak %.0f MB\n", what,
        static_cast<long long>(rows), static_cast<long long>(*source->size()),
        static_cast<double>(source->summary().tokens) / 1e6, took,
        static_cast<double>(source->summary().tokens) / took / 1e6,
        static_cast<double>(used.ru_maxrss) / 1e3);
  }
  std::printf("file: %s\n", io::human_bytes(fs::file_size(file)).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "pack_bench MODEL_FOLDER ROWS.jsonl [conversations=100000] [threads=2] "
                 "[pack=4096] [work=FOLDER]\n";
    return 1;
  }
  return bench::report_errors([&] {
    const std::string work = (fs::temp_directory_path() / "glmtune-pack-bench").string();
    run(argv[1], argv[2],
        {argc,
         argv,
         3,
         {{"conversations", "100000"}, {"threads", "2"}, {"pack", "4096"}, {"work", work}}});
    return 0;
  });
}
