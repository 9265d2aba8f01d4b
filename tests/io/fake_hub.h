#pragma once
// A Hugging Face hub on loopback with one repository; large files come from a second server, as
// the real hub's do.
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/cat.h"
#include "io/hub_download.h"
#include "io/json.h"
#include "io/sha1.h"
#include "io/sha256.h"
#include "support/loopback_server.h"
#include "support/temp_folder.h"

namespace glmtune::io {

struct FakeHub {
  struct File {
    std::string content;
    bool large = false;
    std::string etag() const { return large ? sha256_hex(content) : git_blob_name(content); }
  };
  using Hook = std::function<std::optional<ServedAnswer>(const ServedRequest&)>;

  std::string commit = "0123456789abcdef0123456789abcdef01234567";
  std::string id = "zai-org/GLM-5.2";
  std::string prefix;  // "datasets/" for a data set
  std::map<std::string, File> files;
  std::optional<std::int64_t> announced_size;  // of every file, instead of the real one
  Hook on_hub, on_cdn;                         // may answer first
  TempFolder folder;
  LoopbackServer cdn{[this](const ServedRequest& r) { return cdn_answer(r); }};
  LoopbackServer hub{[this](const ServedRequest& r) { return hub_answer(r); }};

  HubCache cache(const std::string& token = "") const {
    return {.root = folder / "hub",
            .offline = false,
            .endpoint = hub.url(),
            .token = token,
            .token_from = "HF_TOKEN"};
  }
  static FetchOptions options() {
    FetchOptions o;
    o.threads = 3;
    o.retries = {.tries = 3,
                 .first_wait = std::chrono::milliseconds(1),
                 .longest_wait = std::chrono::milliseconds(4)};
    return o;
  }
  std::string repo() const {
    std::string name = prefix.empty() ? "models--" : "datasets--";
    for (const char c : id) name += c == '/' ? std::string("--") : std::string(1, c);
    return folder / ("hub/" + name);
  }

  // The bytes of a range request, or all of them.
  static ServedAnswer bytes_of(const ServedRequest& request, const std::string& content) {
    const std::string range = request.header("range");
    if (!range.starts_with("bytes=")) return {.body = content};
    const std::size_t from = std::stoul(range.substr(6));
    if (from >= content.size()) return {.status = 416};
    return {.status = 206,
            .headers = {{"Content-Range",
                         cat("bytes ", from, "-", content.size() - 1, "/", content.size())}},
            .body = content.substr(from)};
  }

  ServedAnswer cdn_answer(const ServedRequest& request) {
    if (on_cdn) {
      if (auto answer = on_cdn(request)) return *answer;
    }
    const std::string path = request.target.substr(1, request.target.find('?') - 1);
    ServedAnswer answer = bytes_of(request, files.at(path).content);
    answer.headers.emplace_back("ETag", "\"of-the-cdn\"");
    return answer;
  }

  ServedAnswer hub_answer(const ServedRequest& request) {
    if (on_hub) {
      if (auto answer = on_hub(request)) return *answer;
    }
    const std::string list = cat("/api/", prefix.empty() ? "models/" : prefix, id, "/revision/");
    if (request.target.starts_with(list)) return {.body = listing()};
    const std::string resolve = cat("/", prefix, id, "/resolve/", commit, "/");
    if (!request.target.starts_with(resolve)) return refusal(404, "RepoNotFound");
    const std::string path = request.target.substr(resolve.size());
    const auto at = files.find(path);
    if (at == files.end()) return refusal(404, "EntryNotFound");
    const File& file = at->second;
    ServedAnswer answer;
    if (file.large) {
      answer = {.status = 302,
                .headers = {{"Location", cat(cdn.url(), "/", path, "?signature=1")},
                            {"X-Linked-Etag", cat('"', file.etag(), '"')},
                            {"X-Linked-Size", cat(file.content.size())},
                            {"ETag", "\"of-the-redirect\""}}};
    } else {
      answer = bytes_of(request, file.content);
      answer.headers.emplace_back("ETag", cat("W/\"", file.etag(), '"'));
    }
    answer.headers.emplace_back("X-Repo-Commit", commit);
    return answer;
  }

  std::string listing() const {
    Value::Array siblings;
    for (const auto& [path, file] : files) {
      const auto size = announced_size.value_or(static_cast<std::int64_t>(file.content.size()));
      Value sibling(Value::Object{{"rfilename", path}, {"size", size}, {"blobId", file.etag()}});
      if (file.large) {
        sibling.set("blobId", git_blob_name("pointer to " + file.etag()));
        sibling.set("lfs", Value::Object{{"sha256", file.etag()}, {"size", size}});
      }
      siblings.push_back(std::move(sibling));
    }
    return to_json(Value::Object{{"sha", commit}, {"siblings", siblings}});
  }

  static ServedAnswer refusal(int status, const std::string& code) {
    return {.status = status, .headers = {{"X-Error-Code", code}}, .body = "{}"};
  }

  // The message of the error that fetching ends in.
  std::string message(const HubCache& from, RepoKind kind = RepoKind::kModel) const {
    try {
      return fetch_repo(id, kind, from, options()).folder;
    } catch (const Error& e) {
      return e.what();
    }
  }
};

// A model of two shards; big bytes that no two files share.
inline std::string many_bytes(std::size_t n, unsigned seed) {
  std::string out(n, '\0');
  for (char& c : out) {
    seed = seed * 1664525U + 1013904223U;
    c = static_cast<char>(seed >> 24U);
  }
  return out;
}

inline void fill_with_a_model(FakeHub& hub) {
  hub.files["config.json"] = {"{}"};
  hub.files["tokenizer.json"] = {many_bytes(3000, 1), true};
  hub.files["chat_template.jinja"] = {"{{ messages }}"};
  hub.files["model.safetensors.index.json"] = {
      R"({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}})"};
  hub.files["model-1.safetensors"] = {many_bytes(200'000, 2), true};
  hub.files["model-2.safetensors"] = {many_bytes(150'000, 3), true};
  hub.files["README.md"] = {"read me"};
  hub.files["pytorch_model.bin"] = {"pickle", true};
  hub.files["consolidated.safetensors"] = {"other weights", true};
}

}  // namespace glmtune::io
