#include "support/loopback_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/cat.h"
#include "base/error.h"

namespace glmtune {
namespace {

// Everything up to the empty line, then as much as Content-Length says.
ServedRequest read_request(int connection) {
  std::string text;
  std::size_t end = std::string::npos;
  char buffer[4096];
  while ((end = text.find("\r\n\r\n")) == std::string::npos) {
    const ssize_t n = ::recv(connection, buffer, sizeof buffer, 0);
    if (n <= 0) return {};
    text.append(buffer, static_cast<std::size_t>(n));
  }
  ServedRequest request;
  std::size_t at = text.find("\r\n");
  const std::string first = text.substr(0, at);
  const std::size_t space = first.find(' ');
  request.method = first.substr(0, space);
  request.target = first.substr(space + 1, first.rfind(' ') - space - 1);
  while (at < end) {
    const std::size_t next = text.find("\r\n", at + 2);
    const std::string line = text.substr(at + 2, next - at - 2);
    const std::size_t colon = line.find(':');
    std::string name = line.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    request.headers[name] = line.substr(std::min(line.size(), colon + 2));
    at = next;
  }
  request.body = text.substr(end + 4);
  const std::string length = request.header("content-length");
  while (!length.empty() && request.body.size() < std::stoul(length)) {
    const ssize_t n = ::recv(connection, buffer, sizeof buffer, 0);
    if (n <= 0) break;
    request.body.append(buffer, static_cast<std::size_t>(n));
  }
  return request;
}

void send_all(int connection, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace

LoopbackServer::LoopbackServer(Handler handler) : handler_(std::move(handler)) {
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  check(socket_ >= 0 && ::bind(socket_, generic, size) == 0 && ::listen(socket_, 64) == 0 &&
            ::getsockname(socket_, generic, &size) == 0,
        "no socket on 127.0.0.1");
  port_ = ntohs(address.sin_port);
  acceptor_ = std::jthread([this] { accept_all(); });
}

LoopbackServer::~LoopbackServer() {
  ::shutdown(socket_, SHUT_RDWR);
  acceptor_.join();
  ::close(socket_);
  connections_.clear();
}

std::string LoopbackServer::url() const {
  return cat("http://127.0.0.1:", port_);
}

std::vector<ServedRequest> LoopbackServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

std::size_t LoopbackServer::count(const std::string& method, const std::string& target) const {
  const auto all = requests();
  return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [&](const auto& r) {
    return r.method == method && r.target.starts_with(target);
  }));
}

void LoopbackServer::accept_all() {
  while (true) {
    const int connection = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) return;
    connections_.emplace_back([this, connection] { serve(connection); });
  }
}

void LoopbackServer::serve(int connection) {
  const ServedRequest request = read_request(connection);
  if (!request.method.empty()) {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    const ServedAnswer answer = handler_(request);
    std::string head = cat("HTTP/1.1 ", answer.status, " .\r\nConnection: close\r\n");
    for (const auto& [name, value] : answer.headers) head += cat(name, ": ", value, "\r\n");
    head += cat("Content-Length: ", answer.content_length.value_or(answer.body.size()), "\r\n\r\n");
    send_all(connection, head);
    if (request.method != "HEAD") {
      send_all(
          connection,
          std::string_view(answer.body).substr(0, answer.cut_after.value_or(answer.body.size())));
    }
  }
  ::shutdown(connection, SHUT_RDWR);
  ::close(connection);
}

}  // namespace glmtune
