#include "io/hub_client.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <exception>
#include <thread>

#include "base/cat.h"
#include "base/error.h"
#include "io/files.h"
#include "io/json.h"
#include "io/untrusted.h"

namespace glmtune::io {
namespace {

constexpr int kMostRedirects = 10;

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool is_passing(int status) {
  return status == 408 || status == 429 || status >= 500;
}

std::uint64_t number(std::string_view text) {
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc() && end == text.data() + text.size() ? n : 0;
}

// Retry-After in seconds; dates are not used by the hub.
std::chrono::milliseconds retry_after(const HttpResponse& response) {
  constexpr std::uint64_t kMostSeconds = 300;
  return std::chrono::seconds(std::min(number(response.header("retry-after")), kMostSeconds));
}

// The value without W/ and quotes, as the blob is named; "" where it is no name for a file.
std::string plain_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.starts_with('"')) etag.remove_prefix(1);
  if (etag.ends_with('"')) etag.remove_suffix(1);
  const bool name = !etag.empty() && etag.size() <= 128 && etag.front() != '.' &&
                    std::all_of(etag.begin(), etag.end(), [](unsigned char c) {
                      return c < 0x80 && (std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.');
                    });
  return name ? std::string(etag) : "";
}

std::string etag_of(const HttpResponse& response) {
  const std::string_view linked = response.header("x-linked-etag");
  return plain_etag(linked.empty() ? response.header("etag") : linked);
}

std::uint64_t no_progress() {
  return 0;
}

// What the list says a file's blob is called: the sha256 of a large file, else git's sha1.
std::string blob_of(const Value& file) {
  const Value* lfs = file.find("lfs");
  const bool large = lfs != nullptr && lfs->is_object();
  const Value* name = large ? lfs->find("sha256") : file.find("blobId");
  if (name == nullptr || !name->is_string()) return "";
  const std::string etag = plain_etag(name->as_string());
  return etag.size() == (large ? 64U : 40U) ? etag : "";
}

std::string origin_of_endpoint(const std::string& endpoint) {
  std::string origin;
  try {
    origin = origin_of(endpoint);
  } catch (const MachineError&) {
    throw;
  } catch (const Error&) {
    // No address at all; the one message below serves for both.
  }
  if (!origin.starts_with("http://") && !origin.starts_with("https://"))
    fail(cat("HF_ENDPOINT: expected an address that begins with http:// or https://, found \"",
             endpoint, "\""));
  return origin;
}

}  // namespace

HubClient::HubClient(const HubCache& hub, RepoKind kind, std::string id, const HubRetries& retries,
                     const HttpSettings& http, Notice notice, const std::atomic<bool>* stop)
    : hub_(hub),
      kind_(kind),
      id_(std::move(id)),
      retries_(retries),
      http_(http),
      longest_list_(http.longest_list),
      notice_(std::move(notice)),
      stop_(stop),
      origin_(origin_of_endpoint(hub.endpoint)) {}

std::string HubClient::file_url(const std::string& commit, const std::string& path) const {
  return cat(hub_.endpoint, kind_ == RepoKind::kDataset ? "/datasets/" : "/", id_, "/resolve/",
             percent_encoded(commit, false), "/", percent_encoded(path, true));
}

std::string HubClient::token_for(const std::string& url) const {
  return origin_of(url) == origin_ ? hub_.token : "";
}

HttpResponse HubClient::follow(HttpRequest request, bool leave_host,
                               const HttpClient::Receiver& receiver,
                               const std::function<void(const HttpResponse&)>& at_hub) {
  for (int hop = 0; hop <= kMostRedirects; ++hop) {
    request.bearer_token = token_for(request.url);
    HttpResponse response = http_.send(request, receiver);
    const std::string location(response.header("location"));
    if (!is_redirect(response.status) || location.empty()) return response;
    if (at_hub) at_hub(response);
    std::string next = absolute_url(request.url, location);
    if (!leave_host && origin_of(next) != origin_) return response;
    if (request.url.starts_with("https:") && !next.starts_with("https:")) {
      fail(cat(request.url, ": is sent on to ", origin_of(next), ", which is not encrypted"));
    }
    request.url = std::move(next);
  }
  fail(cat(request.url, ": sent on more than ", kMostRedirects, " times"));
}

void HubClient::pause(std::chrono::milliseconds time) const {
  constexpr std::chrono::milliseconds kPiece{50};
  const auto end = std::chrono::steady_clock::now() + time;
  for (auto now = end - time; now < end; now = std::chrono::steady_clock::now()) {
    if (stop_ != nullptr && *stop_) throw HubStopped{};
    std::this_thread::sleep_for(
        std::min(std::chrono::ceil<std::chrono::milliseconds>(end - now), kPiece));
  }
}

HttpResponse HubClient::with_retries(const std::function<HttpResponse()>& attempt,
                                     const std::function<std::uint64_t()>& progress,
                                     int tries_to_connect) {
  std::chrono::milliseconds wait = retries_.first_wait;
  std::uint64_t reached = progress();
  int broken_in_a_row = 0;
  for (int tries = 1;; ++tries) {
    std::string what;
    std::chrono::milliseconds least{0};
    std::exception_ptr broken;
    HttpResponse response;
    try {
      response = attempt();
      if (!is_passing(response.status)) return response;
      broken_in_a_row = 0;
      what = cat("HTTP status ", response.status);
      least = retry_after(response);
    } catch (const ConnectionError& e) {
      broken = std::current_exception();
      ++broken_in_a_row;
      what = e.what();
    }
    if (progress() > reached) {
      reached = progress();
      tries = 1;
      broken_in_a_row = broken ? 1 : 0;
      wait = retries_.first_wait;
    }
    if (tries >= retries_.tries || broken_in_a_row >= tries_to_connect) {
      if (broken) std::rethrow_exception(broken);
      return response;
    }
    const auto time = std::max(least, std::min(wait, retries_.longest_wait));
    if (notice_) {
      notice_(cat(id_, ": ", what, "; trying again in ",
                  std::chrono::duration<double>(time).count(), " s"));
    }
    pause(time);
    wait *= 2;
  }
}

void HubClient::refuse(const HttpResponse& response, const std::string& url,
                       const std::string& what) const {
  const std::string_view code = response.header("x-error-code");
  const char* kind = kind_ == RepoKind::kDataset ? "dataset" : "model";
  const std::string token =
      hub_.token.empty() ? "; no token was sent (set HF_TOKEN, or log in with `hf auth login`)"
                         : cat("; the token of ", hub_.token_from, " was sent");
  if (code == "GatedRepo") {
    fail(cat(id_, ": access is restricted: accept its terms at ", hub_.endpoint, "/",
             kind_ == RepoKind::kDataset ? "datasets/" : "", id_,
             " and use a token of that account", token));
  }
  if (code == "RevisionNotFound")
    throw HubNoRevision(cat(id_, ": ", hub_.endpoint, " has no ", what));
  if (code == "EntryNotFound") fail(cat(id_, ": ", hub_.endpoint, " has no ", what));
  if (code == "RepoNotFound" || response.status == 404 || response.status == 401) {
    fail(cat(id_, ": ", hub_.endpoint, " has no such ", kind,
             ", or it is private: check the id and the token", token));
  }
  const std::string_view message = response.header("x-error-message");
  const std::string said = printable(
      message.empty() ? std::string_view(response.body).substr(0, 200) : message.substr(0, 500));
  fail(cat(url.substr(0, url.find('?')), ": HTTP status ", response.status,
           said.empty() ? "" : cat(" (", said, ")"), response.status == 403 ? token : ""));
}

HubRevision HubClient::revision(const std::string& revision) {
  const std::string url =
      cat(hub_.endpoint, kind_ == RepoKind::kDataset ? "/api/datasets/" : "/api/models/", id_,
          "/revision/", percent_encoded(revision, false), "?blobs=true");
  std::string body;
  const HttpResponse response = with_retries(
      [&] {
        body.clear();
        return follow(
            {.url = url}, false, [&](const HttpResponse&, const char* data, std::size_t bytes) {
              if (bytes > longest_list_ - body.size())
                fail(cat(url, ": the list of files is longer than ", human_bytes(longest_list_),
                         "; is ", hub_.endpoint, " a Hugging Face hub (HF_ENDPOINT)?"));
              body.append(data, bytes);
            });
      },
      no_progress, retries_.tries_to_connect);
  if (response.status != 200) refuse(response, url, cat("revision \"", revision, "\""));
  const Value value = parse_json(body, url);
  const Value* commit = value.is_object() ? value.find("sha") : nullptr;
  const Value* siblings = value.is_object() ? value.find("siblings") : nullptr;
  if (commit == nullptr || !commit->is_string() || !is_commit(commit->as_string()) ||
      siblings == nullptr || !siblings->is_array()) {
    fail(cat(url, ": the answer has no commit and no list of files; is ", hub_.endpoint,
             " a Hugging Face hub (HF_ENDPOINT)?"));
  }
  HubRevision out;
  out.commit = commit->as_string();
  for (const Value& file : siblings->as_array()) {
    const Value* name = file.is_object() ? file.find("rfilename") : nullptr;
    if (name == nullptr || !name->is_string() || !is_inside(name->as_string())) {
      fail(cat(url, ": lists a file without a usable name: ", printable(to_json(file))));
    }
    const Value* size = file.find("size");
    const bool known = size != nullptr && size->is_int() && size->as_int() > 0;
    out.files.push_back(
        {name->as_string(), known ? static_cast<std::uint64_t>(size->as_int()) : 0, blob_of(file)});
  }
  return out;
}

HubFileHead HubClient::head(const std::string& commit, const std::string& path) {
  const std::string url = file_url(commit, path);
  const HttpResponse response = with_retries(
      [&] { return follow({.url = url, .head = true}, false, {}); }, no_progress, retries_.tries);
  if (response.status != 200 && !is_redirect(response.status)) {
    refuse(response, url, cat("file ", path, " at ", commit));
  }
  const std::string_view linked = response.header("x-linked-size");
  HubFileHead head{.etag = etag_of(response),
                   .size = number(linked.empty() ? response.header("content-length") : linked)};
  if (head.etag.empty()) {
    fail(cat(url, ": the answer has no usable ETag; is ", hub_.endpoint,
             " a Hugging Face hub (HF_ENDPOINT), or is there a proxy between?"));
  }
  return head;
}

void HubClient::get(const std::string& commit, const std::string& path, const HubFileHead& head,
                    Sink& sink) {
  const std::string url = file_url(commit, path);
  const auto check_same = [&](const HttpResponse& response) {
    // Only the hub's own answers name the blob; where it sends us on has tags of its own.
    const std::string etag = etag_of(response);
    if (response.header("x-repo-commit").empty() || etag.empty() || etag == head.etag) return;
    throw HubFileChanged(cat(url, ": changed from ", head.etag, " to ", etag));
  };
  const auto part = [&] {
    const std::uint64_t from = sink.size();
    bool begun = false;
    const auto receive = [&](const HttpResponse& r, const char* data, std::size_t bytes) {
      if (!begun) {
        check_same(r);
        if (r.status == 206 && !r.header("content-range").starts_with(cat("bytes ", from, "-"))) {
          fail(cat(url, ": asked for the bytes from ", from, " on, the answer has ",
                   printable(r.header("content-range"))));
        }
        sink.begin(r.status == 206 ? from : 0);
        begun = true;
      }
      sink.add(data, bytes);
    };
    return follow({.url = url, .range_from = from}, true, receive, check_same);
  };
  for (int tries = 0; tries < retries_.tries; ++tries) {
    if (sink.size() == head.size && head.size > 0) return;
    const std::uint64_t before = sink.size();
    const HttpResponse response = with_retries(
        part, [&] { return sink.size(); }, retries_.tries);
    if (response.status == 416 && before > 0) {
      sink.begin(0);
      continue;
    }
    if (response.status != 200 && response.status != 206) {
      refuse(response, url, cat("file ", path, " at ", commit));
    }
    if (head.size == 0) return;
  }
  if (sink.size() != head.size) {
    fail(cat(url, ": has ", sink.size(), " bytes instead of the ", head.size, " announced"));
  }
}

}  // namespace glmtune::io
