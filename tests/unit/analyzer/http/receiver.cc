#include "tests/unit/analyzer/http/receiver.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace gordian::http {

Receiver::Receiver(std::function<std::string(size_t)> answer) : answer_(std::move(answer)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
      listen(listener_, 8) == 0 &&
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
      pipe(stop_) == 0) {
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Run(); });
  }
}

Receiver::~Receiver() {
  if (thread_.joinable()) {
    (void)!write(stop_[1], "x", 1);
    thread_.join();
  }
  for (const int fd : {listener_, stop_[0], stop_[1]}) close(fd);
}

std::vector<Received> Receiver::received() const {
  const std::lock_guard lock(mutex_);
  return received_;
}

std::string Receiver::Code(int code, const std::string& more, const std::string& body) {
  return "HTTP/1.1 " + std::to_string(code) + " Said\r\n" + more +
         "Content-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body;
}

void Receiver::Run() {
  const auto readable = [this](int fd) {
    pollfd waits[2] = {{.fd = fd, .events = POLLIN, .revents = 0},
                       {.fd = stop_[0], .events = POLLIN, .revents = 0}};
    return poll(waits, 2, -1) > 0 && waits[1].revents == 0;
  };
  while (readable(listener_)) {
    const int fd = accept(listener_, nullptr, nullptr);
    std::string text;
    size_t end = std::string::npos, wanted = 0;
    char block[4096];
    while (readable(fd)) {
      const ssize_t n = read(fd, block, sizeof block);
      if (n <= 0) break;
      text.append(block, static_cast<size_t>(n));
      if (end == std::string::npos && (end = text.find("\r\n\r\n")) != std::string::npos) {
        const size_t at = text.find("Content-Length: ");
        wanted = end + 4 + (at < end ? std::stoul(text.substr(at + 16)) : 0);
      }
      if (end != std::string::npos && text.size() >= wanted) break;
    }
    if (end == std::string::npos) {
      close(fd);
      continue;
    }
    Received one;
    one.path = text.substr(text.find(' ') + 1);
    one.path.resize(one.path.find(' '));
    one.body = text.substr(end + 4);
    for (size_t at = text.find("\r\n") + 2; at < end;) {
      const size_t stop = text.find("\r\n", at), colon = text.find(": ", at);
      std::string name = text.substr(at, colon - at);
      std::transform(name.begin(), name.end(), name.begin(), ::tolower);
      if (colon < stop) one.headers[name] = text.substr(colon + 2, stop - colon - 2);
      at = stop + 2;
    }
    size_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      number = received_.size();
      received_.push_back(std::move(one));
    }
    const std::string answer = answer_ ? answer_(number) : Code(200);
    if (answer == kSilence) {
      while (readable(fd) && read(fd, block, sizeof block) > 0) {
      }
    } else {
      (void)!send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
    }
    close(fd);
  }
}

}  // namespace gordian::http
