#include "io/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <exception>
#include <filesystem>
#include <mutex>

#include "base/cat.h"
#include "base/error.h"

namespace glmtune::io {
namespace {

constexpr std::size_t kMaxKeptBody = std::size_t{16} << 20U;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string_view trim(std::string_view text) {
  const auto space = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return text;
}

// A libcurl from one distribution looks for certificates where that one keeps them; the program
// may run on another.
std::string certificates() {
  for (const char* file : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}) {
    std::error_code error;
    if (std::filesystem::exists(file, error)) return file;
  }
  return "";
}

}  // namespace

std::string_view HttpResponse::header(std::string_view lower_case_name) const {
  const auto at = std::find_if(headers.begin(), headers.end(),
                               [&](const auto& h) { return h.first == lower_case_name; });
  return at == headers.end() ? std::string_view() : at->second;
}

struct HttpClient::Impl {
  CURL* curl = nullptr;
  HttpSettings settings;
  std::array<char, CURL_ERROR_SIZE> message{};

  // Of the request under way.
  HttpResponse response;
  const Receiver* receiver = nullptr;
  std::exception_ptr thrown;

  ~Impl() {
    if (curl != nullptr) curl_easy_cleanup(curl);
  }

  void header_line(std::string_view line) {
    if (line.starts_with("HTTP/")) {  // also after an interim answer
      response.headers.clear();
      long status = 0;
      curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
      response.status = static_cast<int>(status);
      return;
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    response.headers.emplace_back(lower(trim(line.substr(0, colon))),
                                  std::string(trim(line.substr(colon + 1))));
  }

  bool body(const char* data, std::size_t bytes) {
    try {
      if (receiver != nullptr && (response.status == 200 || response.status == 206)) {
        (*receiver)(response, data, bytes);
      } else {
        response.body.append(
            data, std::min(bytes, kMaxKeptBody - std::min(kMaxKeptBody, response.body.size())));
      }
      return true;
    } catch (...) {
      thrown = std::current_exception();
      return false;
    }
  }
};

HttpClient::HttpClient(HttpSettings settings) : impl_(std::make_unique<Impl>()) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  impl_->settings = std::move(settings);
  if (impl_->settings.ca_file.empty()) impl_->settings.ca_file = certificates();
  impl_->curl = curl_easy_init();
  if (impl_->curl == nullptr) fail_machine("libcurl cannot be initialised");
}
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;
HttpClient::~HttpClient() = default;

HttpResponse HttpClient::send(const HttpRequest& request, const Receiver& receiver) {
  Impl& s = *impl_;
  CURL* curl = s.curl;
  s.response = {};
  s.receiver = receiver ? &receiver : nullptr;
  s.thrown = nullptr;
  s.message[0] = '\0';
  curl_easy_reset(curl);  // keeps the connection
  const auto set = [&](CURLoption option, auto value) {
    const CURLcode code = curl_easy_setopt(curl, option, value);
    if (code != CURLE_OK) fail_machine(cat("libcurl: ", curl_easy_strerror(code)));
  };
  using DataCallback = std::size_t (*)(char*, std::size_t, std::size_t, void*);
  const DataCallback on_header = [](char* data, std::size_t size, std::size_t n, void* self) {
    static_cast<Impl*>(self)->header_line({data, size * n});
    return size * n;
  };
  const DataCallback on_body = [](char* data, std::size_t size, std::size_t n, void* self) {
    return static_cast<Impl*>(self)->body(data, size * n) ? size * n : std::size_t{0};
  };
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_NOBODY, request.head ? 1L : 0L);
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(s.settings.connect_seconds));
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(s.settings.stall_seconds));
  set(CURLOPT_USERAGENT, "glmtune/0.1");
  // Refused, harmlessly, where a failed connection left the buffer of the one before.
  (void)curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 512L * 1024L);
  set(CURLOPT_ERRORBUFFER, s.message.data());
  set(CURLOPT_HEADERFUNCTION, on_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(&s));
  set(CURLOPT_WRITEFUNCTION, on_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&s));
  if (!s.settings.ca_file.empty()) set(CURLOPT_CAINFO, s.settings.ca_file.c_str());
  if (!request.bearer_token.empty()) {
    set(CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BEARER));
    set(CURLOPT_XOAUTH2_BEARER, request.bearer_token.c_str());
  }
  // Not CURLOPT_RANGE: a size of the packed form would not be the file's.
  const std::string range = cat("Range: bytes=", request.range_from, "-");
  curl_slist* headers = curl_slist_append(nullptr, "Accept-Encoding: identity");
  if (request.range_from > 0) headers = curl_slist_append(headers, range.c_str());
  set(CURLOPT_HTTPHEADER, headers);
  const CURLcode code = curl_easy_perform(curl);
  curl_slist_free_all(headers);
  if (s.thrown) std::rethrow_exception(s.thrown);
  if (code != CURLE_OK) {
    const std::string what = s.message[0] != '\0' ? s.message.data() : curl_easy_strerror(code);
    throw ConnectionError(cat(request.url.substr(0, request.url.find('?')), ": ", what));
  }
  return std::move(s.response);
}

namespace {

struct UrlHandle {
  CURLU* url = curl_url();
  UrlHandle() = default;
  UrlHandle(const UrlHandle&) = delete;
  UrlHandle& operator=(const UrlHandle&) = delete;
  ~UrlHandle() { curl_url_cleanup(url); }

  void set(const std::string& text) {
    if (curl_url_set(url, CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) {
      fail(cat("\"", text, "\" is no http or https address"));
    }
  }
  std::string get(CURLUPart part) const {
    char* text = nullptr;
    if (curl_url_get(url, part, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return "";
    std::string out = text;
    curl_free(text);
    return out;
  }
};

}  // namespace

std::string origin_of(const std::string& url) {
  UrlHandle handle;
  handle.set(url);
  return lower(cat(handle.get(CURLUPART_SCHEME), "://", handle.get(CURLUPART_HOST), ":",
                   handle.get(CURLUPART_PORT)));
}

std::string absolute_url(const std::string& base, const std::string& location) {
  UrlHandle handle;
  handle.set(base);
  handle.set(location);
  char* text = nullptr;
  if (curl_url_get(handle.url, CURLUPART_URL, &text, 0) != CURLUE_OK) {
    fail(cat("\"", location, "\" is no address"));
  }
  std::string out = text;
  curl_free(text);
  return out;
}

std::string percent_encoded(std::string_view text, bool keep_slashes) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte < 0x80 && std::isalnum(byte) != 0) || c == '-' || c == '.' ||
                       c == '_' || c == '~' || (c == '/' && keep_slashes);
    if (plain) {
      out.push_back(c);
    } else {
      out += {'%', "0123456789ABCDEF"[byte >> 4U], "0123456789ABCDEF"[byte & 0xFU]};
    }
  }
  return out;
}

}  // namespace glmtune::io
