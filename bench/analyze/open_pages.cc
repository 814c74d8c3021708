#include "bench/analyze/open_pages.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "analyzer/web/http_server.h"

namespace gordian::bench {
namespace {

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "open pages: %s\n", what);
  exit(1);
}

}  // namespace

OpenPages::OpenPages(int port, size_t count) : begun_(count) {
  for (size_t i = 0; i < count; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const std::string request =
        std::string("GET ") + web::kEventsPath + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        send(fd, request.data(), request.size(), MSG_NOSIGNAL) < 0) {
      Fail("cannot connect");
    }
    pages_.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  }
  reader_ = std::thread([this] { Read(); });
}

OpenPages::~OpenPages() {
  stopping_ = true;
  reader_.join();
  for (const pollfd& page : pages_) close(page.fd);
}

void OpenPages::AwaitFirst() const {
  while (begun_count_ < pages_.size()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void OpenPages::Read() {
  while (!stopping_) {
    if (poll(pages_.data(), pages_.size(), 50) <= 0) continue;
    for (size_t i = 0; i < pages_.size(); ++i) {
      char bytes[16384];
      if ((pages_[i].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
      const ssize_t n = recv(pages_[i].fd, bytes, sizeof bytes, MSG_DONTWAIT);
      if (n == 0) Fail("the server closed the connection of a page that reads");
      if (n < 0) continue;
      bytes_ += static_cast<uint64_t>(n);
      if (!begun_[i]) {
        begun_[i] = true;
        ++begun_count_;
      }
    }
  }
}

}  // namespace gordian::bench
