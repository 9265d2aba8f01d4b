#pragma once
// HubClient: what the Hugging Face hub says about one repository, and its files' bytes. Answers
// 408, 429 and 5xx and broken connections are tried again, slower each time; everything else ends
// in an Error that says what to do. The token goes to the endpoint's own host only.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/http.h"
#include "io/hub_cache.h"

namespace glmtune::io {

struct HubRetries {
  int tries = 6;             // in a row without a byte of progress
  int tries_to_connect = 3;  // connections in a row that fail or break, for the list of files
  std::chrono::milliseconds first_wait{1000};  // doubled from try to try
  std::chrono::milliseconds longest_wait{60'000};
};

struct HubFile {
  std::string path;        // in the repository, with '/'
  std::uint64_t size = 0;  // 0 where the hub does not say
  std::string etag = {};   // the name of its blob; "" where the hub does not say
};

struct HubRevision {
  std::string commit;  // 40 hexadecimal digits
  std::vector<HubFile> files;
};

struct HubFileHead {
  std::string etag;  // the name of its blob: git's sha1, or the sha256 of a large file
  std::uint64_t size = 0;
  bool is_git_blob = false;  // the list of files says that the tag is git's
  bool is_sha256() const { return etag.size() == 64; }
};

// Thrown out of a wait or a transfer once it is to stop.
struct HubStopped {};

// The file is another one than its head said.
struct HubFileChanged : Error {
  using Error::Error;
};

// The repository has no such branch, tag or commit (any more).
struct HubNoRevision : Error {
  using Error::Error;
};

class HubClient {
 public:
  // What the client waits for, or gives up: "waiting 8 s: ..."; may come from several threads.
  using Notice = std::function<void(const std::string&)>;
  // stop: set, it ends waits with HubStopped.
  HubClient(const HubCache& hub, RepoKind kind, std::string id, const HubRetries& retries,
            const HttpSettings& http = {}, Notice notice = {},
            const std::atomic<bool>* stop = nullptr);

  HubRevision revision(const std::string& revision);
  HubFileHead head(const std::string& commit, const std::string& path);

  // Where the bytes of a file go. begin(offset) comes before the first byte of every answer: the
  // hub may send the file from its beginning although a part was there.
  struct Sink {
    virtual std::uint64_t size() const = 0;  // bytes already there
    virtual void begin(std::uint64_t offset) = 0;
    virtual void add(const char* data, std::size_t bytes) = 0;
    virtual ~Sink() = default;
  };
  // The bytes behind those the sink has, up to the end of the file. Throws HubFileChanged.
  void get(const std::string& commit, const std::string& path, const HubFileHead& head, Sink& sink);

 private:
  std::string file_url(const std::string& commit, const std::string& path) const;
  std::string token_for(const std::string& url) const;
  // Redirects followed: all of them, or only those to the endpoint's host. at_hub sees the answers
  // that send on.
  HttpResponse follow(HttpRequest request, bool leave_host, const HttpClient::Receiver& receiver,
                      const std::function<void(const HttpResponse&)>& at_hub = {});
  void pause(std::chrono::milliseconds time) const;
  // progress(): a number that grows while tries are not in vain. tries_to_connect: in a row without
  // a whole answer, of whatever status.
  HttpResponse with_retries(const std::function<HttpResponse()>& attempt,
                            const std::function<std::uint64_t()>& progress, int tries_to_connect);
  [[noreturn]] void refuse(const HttpResponse& response, const std::string& url,
                           const std::string& what) const;

  const HubCache hub_;
  RepoKind kind_;
  std::string id_;
  HubRetries retries_;
  HttpClient http_;
  std::uint64_t longest_list_;
  Notice notice_;
  const std::atomic<bool>* stop_;
  std::string origin_;
};

}  // namespace glmtune::io
