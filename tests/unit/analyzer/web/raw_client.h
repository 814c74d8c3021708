// A client that sends any bytes, and reads what comes back, with a patience of its own.
#ifndef GORDIAN_TESTS_UNIT_ANALYZER_WEB_RAW_CLIENT_H_
#define GORDIAN_TESTS_UNIT_ANALYZER_WEB_RAW_CLIENT_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>

namespace gordian::web {

class RawClient {
 public:
  explicit RawClient(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawClient() { close(fd_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  int fd() const { return fd_; }

  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

  // Reads until `text` has come, the peer has closed, or the patience is at its end.
  const std::string& ReadUntil(std::string_view text,
                               std::chrono::milliseconds patience = std::chrono::seconds(20)) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (got_.find(text) == std::string::npos && !closed_) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          end - std::chrono::steady_clock::now());
      pollfd wait{.fd = fd_, .events = POLLIN, .revents = 0};
      if (left.count() <= 0 || poll(&wait, 1, static_cast<int>(left.count())) <= 0) break;
      char bytes[4096];
      const ssize_t n = recv(fd_, bytes, sizeof bytes, 0);
      if (n <= 0) {
        closed_ = true;
      } else {
        got_.append(bytes, static_cast<size_t>(n));
      }
    }
    return got_;
  }
  // Reads until the peer closes.
  const std::string& ReadAll(std::chrono::milliseconds patience = std::chrono::seconds(20)) {
    return ReadUntil("\1 never sent", patience);
  }
  bool closed() const { return closed_; }
  void Clear() { got_.clear(); }

 private:
  const int fd_;
  bool connected_ = false;
  bool closed_ = false;
  std::string got_;
};

inline std::string Get(int port, const std::string& path, const std::string& headers = "") {
  RawClient client(port);
  client.Send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers +
              "\r\n");
  return client.ReadAll();
}

}  // namespace gordian::web

#endif  // GORDIAN_TESTS_UNIT_ANALYZER_WEB_RAW_CLIENT_H_
