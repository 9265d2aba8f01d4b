#pragma once
// An HTTP server on 127.0.0.1 inside the test program: one answer a connection, from a function.
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace glmtune {

struct ServedRequest {
  std::string method, target;                  // "GET", "/a/b?c"
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  std::string header(const std::string& name) const {
    const auto at = headers.find(name);
    return at == headers.end() ? "" : at->second;
  }
};

struct ServedAnswer {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
  // The connection is closed after so many bytes of the body, whatever Content-Length says.
  std::optional<std::size_t> cut_after = {};
  // HEAD answers carry a Content-Length without a body.
  std::optional<std::size_t> content_length = {};
};

class LoopbackServer {
 public:
  // Called from one thread per connection.
  using Handler = std::function<ServedAnswer(const ServedRequest&)>;
  explicit LoopbackServer(Handler handler);
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;
  ~LoopbackServer();

  std::string url() const;  // "http://127.0.0.1:PORT"
  std::vector<ServedRequest> requests() const;
  // Requests of a method whose target begins so.
  std::size_t count(const std::string& method, const std::string& target) const;

 private:
  void accept_all();
  void serve(int connection);

  Handler handler_;
  int socket_ = -1;
  std::uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::vector<ServedRequest> requests_;
  std::vector<std::jthread> connections_;
  std::jthread acceptor_;
};

}  // namespace glmtune
