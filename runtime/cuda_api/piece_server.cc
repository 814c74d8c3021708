#include "runtime/cuda_api/piece_server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <utility>

namespace gordian::runtime::cuda {
namespace {

constexpr int kAnswerMs = 1000;  // a peer that connects asks at once

struct Request {
  uint64_t magic, offset;
};
constexpr uint64_t kMagic = 0x3153504754524731;
struct Answered {
  uint64_t magic, bytes;  // 0: there is none
};

socklen_t Address(const std::string& name, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  memcpy(address->sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

void SetTimeout(int fd, int timeout_ms) {
  const timeval limit{timeout_ms / 1000, timeout_ms % 1000 * 1000};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

// A call that a signal has interrupted, again.
template <typename Call>
auto Again(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// All of it, in as many parts as signals make of it; false: the peer has gone away, or is late.
bool ReceiveAll(int fd, void* to, size_t bytes) {
  for (size_t got = 0; got < bytes;) {
    const ssize_t n = Again([&] { return recv(fd, static_cast<char*>(to) + got, bytes - got, 0); });
    if (n <= 0) return false;
    got += static_cast<size_t>(n);
  }
  return true;
}

bool IsSameUser(int fd) {
  ucred peer;
  socklen_t length = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

}  // namespace

Status PieceServer::Start(Finder find, std::unique_ptr<PieceServer>* server) {
  std::unique_ptr<PieceServer> s(new PieceServer(std::move(find)));
  s->wake_ = eventfd(0, EFD_CLOEXEC);
  s->listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (s->wake_ < 0 || s->listener_ < 0) return Status::FromErrno(errno, "a socket for the pieces");
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random) return Status::FromErrno(errno, "getrandom");
  s->name_ = "gordian-pieces-" + std::to_string(getpid()) + "-" + std::to_string(random);
  sockaddr_un address;
  const socklen_t length = Address(s->name_, &address);
  if (bind(s->listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(s->listener_, 64) != 0) {
    return Status::FromErrno(errno, "listening for the pieces");
  }
  s->thread_ = std::thread([self = s.get()] { self->Serve(); });
  *server = std::move(s);
  return Status::Ok();
}

PieceServer::~PieceServer() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = write(wake_, &one, sizeof one);
    thread_.join();
  }
  if (listener_ >= 0) close(listener_);
  if (wake_ >= 0) close(wake_);
}

void PieceServer::Serve() {
  // The program's handlers run on its own threads.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  for (;;) {
    pollfd fds[2] = {{wake_, POLLIN, 0}, {listener_, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0) continue;
    if (fds[0].revents != 0) return;
    const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    if (IsSameUser(connection)) Answer(connection);
    close(connection);
  }
}

void PieceServer::Answer(int connection) {
  SetTimeout(connection, kAnswerMs);
  Request request;
  if (!ReceiveAll(connection, &request, sizeof request) || request.magic != kMagic) return;
  Answered answered = {kMagic, 0};
  const int descriptor = find_(request.offset, &answered.bytes);
  iovec io{&answered, sizeof answered};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  } else {
    answered.bytes = 0;
  }
  // A peer that has gone away meanwhile needs no answer.
  [[maybe_unused]] const ssize_t sent = sendmsg(connection, &message, MSG_NOSIGNAL);
}

Status PieceServer::Fetch(const std::string& name, uint64_t offset, int timeout_ms, uint64_t* bytes,
                          int* descriptor) {
  if (name.empty() || name.size() > 63) return Status::InvalidArgument("no name of a server of pieces");
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Status::FromErrno(errno, "socket");
  SetTimeout(fd, timeout_ms);
  sockaddr_un address;
  const socklen_t length = Address(name, &address);
  const auto ask = [&]() -> Status {
    if (Again([&] { return connect(fd, reinterpret_cast<sockaddr*>(&address), length); }) != 0) {
      return Status::FromErrno(errno, "reaching another rank for its memory");
    }
    if (!IsSameUser(fd)) return Status::PermissionDenied("another rank's memory is another user's");
    const Request request = {kMagic, offset};
    if (Again([&] { return send(fd, &request, sizeof request, MSG_NOSIGNAL); }) != sizeof request) {
      return Status::FromErrno(errno, "asking another rank for its memory");
    }
    Answered answered = {};
    iovec io{&answered, sizeof answered};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &io;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    // The descriptor comes with the first byte, whatever part of the rest comes with it.
    const ssize_t got = Again([&] { return recvmsg(fd, &message, MSG_CMSG_CLOEXEC); });
    const cmsghdr* header = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
    if (header != nullptr && header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(sizeof(int))) {
      memcpy(descriptor, CMSG_DATA(header), sizeof *descriptor);
      const auto first = static_cast<size_t>(got);
      if (!ReceiveAll(fd, reinterpret_cast<char*>(&answered) + first, sizeof answered - first)) answered.magic = 0;
      *bytes = answered.bytes;
      if (answered.magic == kMagic) return Status::Ok();
      close(*descriptor);
    }
    return Status::Unavailable("another rank did not give its memory");
  };
  const Status status = ask();
  close(fd);
  return status;
}

}  // namespace gordian::runtime::cuda
