#pragma once
// HTTP requests (libcurl), one hop at a time: a redirect is an answer like any other, so that the
// caller decides where a token may go.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace glmtune::io {

// No answer, or not all of one: name not resolved, connection refused, cut or too slow.
struct ConnectionError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct HttpRequest {
  std::string url;
  bool head = false;
  std::string bearer_token = {};  // empty: none
  std::uint64_t range_from = 0;   // > 0: asks for the bytes from there on
};

struct HttpResponse {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;  // where no receiver took it; cut at 16 MB

  // The header's value, "" when absent.
  std::string_view header(std::string_view lower_case_name) const;
};

struct HttpSettings {
  int connect_seconds = 10;
  int stall_seconds = 30;  // without a byte for so long a connection counts as broken
  std::uint64_t longest_list = std::uint64_t{256} << 20;  // bytes of a repository's list of files
  std::string ca_file;  // certificates of authorities; empty: libcurl's own, else the usual places
};

// One connection that is kept open between requests; not to be shared by threads.
class HttpClient {
 public:
  explicit HttpClient(HttpSettings settings = {});
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;
  ~HttpClient();

  // Gets pieces of the body in order; the response has its status and headers by then.
  using Receiver = std::function<void(const HttpResponse&, const char* data, std::size_t bytes)>;
  // Throws ConnectionError; what the receiver throws ends the transfer and is passed on. Answers
  // of other statuses than 200 and 206 keep their body.
  HttpResponse send(const HttpRequest& request, const Receiver& receiver = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// "scheme://host:port" of an URL, in lower case, with the port spelled out.
std::string origin_of(const std::string& url);
// An absolute URL from a Location header and the URL it answered.
std::string absolute_url(const std::string& base, const std::string& location);
// Every byte but letters, digits and -._~ (and '/' where kept) as %XX.
std::string percent_encoded(std::string_view text, bool keep_slashes);

}  // namespace glmtune::io
