#include "runtime/cuda_api/piece_server.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <utility>

#include "common/service_thread.h"

namespace gordian::runtime::cuda {
namespace {

constexpr int kAnswerMs = 1000;  // a peer that connects asks at once

constexpr size_t kNameBytes = 64;
enum RequestKind : uint64_t { kFetch = 1, kGive = 2, kTakeBack = 3 };
struct Request {
  uint64_t magic, kind, offset, bytes;
  char owner[kNameBytes];
};
constexpr uint64_t kMagic = 0x3253504754524731;
struct Answered {
  uint64_t magic, bytes;  // 0: there is none, or it was not done
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

// Receives all of it, though signals may split it. False: the peer has gone away, or is late
// (EAGAIN).
bool ReceiveAll(int fd, void* to, size_t bytes) {
  for (size_t got = 0; got < bytes;) {
    const ssize_t n = Again([&] { return recv(fd, static_cast<char*>(to) + got, bytes - got, 0); });
    if (n == 0) errno = ECONNRESET;
    if (n <= 0) return false;
    got += static_cast<size_t>(n);
  }
  return true;
}

// With a descriptor, or -1.
bool SendWith(int fd, const void* data, size_t bytes, int descriptor) {
  iovec io{const_cast<void*>(data), bytes};
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
  }
  // So few bytes fit at once.
  return Again([&] { return sendmsg(fd, &message, MSG_NOSIGNAL); }) == static_cast<ssize_t>(bytes);
}

// The caller's to close; -1 if none came.
bool ReceiveWith(int fd, void* data, size_t bytes, int* descriptor) {
  *descriptor = -1;
  iovec io{data, bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  // The descriptor comes with the first byte, whatever part of the rest comes with it.
  const ssize_t got = Again([&] { return recvmsg(fd, &message, MSG_CMSG_CLOEXEC); });
  if (got == 0) errno = ECONNRESET;
  if (got <= 0) return false;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(sizeof(int))) {
    memcpy(descriptor, CMSG_DATA(header), sizeof *descriptor);
  }
  const auto first = static_cast<size_t>(got);
  if (ReceiveAll(fd, static_cast<char*>(data) + first, bytes - first)) return true;
  const int why = errno;
  if (*descriptor >= 0) close(*descriptor);
  *descriptor = -1;
  errno = why;
  return false;
}

bool IsSameUser(int fd) {
  ucred peer;
  socklen_t length = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

}  // namespace

Status PieceServer::Start(Handlers handlers, std::unique_ptr<PieceServer>* server) {
  std::unique_ptr<PieceServer> s(new PieceServer(std::move(handlers)));
  s->wake_ = eventfd(0, EFD_CLOEXEC);
  s->listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (s->wake_ < 0 || s->listener_ < 0) return Status::FromErrno(errno, "a socket for the pieces");
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random)
    return Status::FromErrno(errno, "getrandom");
  s->name_ = "gordian-pieces-" + std::to_string(getpid()) + "-" + std::to_string(random);
  sockaddr_un address;
  const socklen_t length = Address(s->name_, &address);
  if (bind(s->listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(s->listener_, 64) != 0) {
    return Status::FromErrno(errno, "listening for the pieces");
  }
  s->thread_ = MakeServiceThread("gordian-pieces", [self = s.get()] { self->Serve(); });
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
  if (handlers_.enter) handlers_.enter();
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
  int given = -1;
  if (!ReceiveWith(connection, &request, sizeof request, &given)) return;
  Answered answered = {kMagic, 0};
  int descriptor = -1;
  request.owner[kNameBytes - 1] = '\0';
  if (request.magic != kMagic) {
    // A stranger.
  } else if (request.kind == kFetch) {
    descriptor = handlers_.find(request.offset, &answered.bytes);
    if (descriptor < 0) answered.bytes = 0;
  } else if (request.kind == kGive && given >= 0) {
    answered.bytes = handlers_.take(request.owner, request.offset, request.bytes, given) ? 1 : 0;
  } else if (request.kind == kTakeBack) {
    answered.bytes = handlers_.leave(request.owner, request.offset) ? 1 : 0;
  }
  if (given >= 0) close(given);
  // A peer that has gone away meanwhile needs no answer.
  if (request.magic == kMagic) SendWith(connection, &answered, sizeof answered, descriptor);
}

namespace {

// What the server of that name says to the request; a descriptor may go with either.
Status Ask(const std::string& name, const Request& request, int given, int timeout_ms,
           uint64_t* bytes, int* descriptor) {
  if (name.empty() || name.size() >= kNameBytes)
    return Status::InvalidArgument("no name of a server of pieces");
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
    if (!SendWith(fd, &request, sizeof request, given)) {
      return Status::FromErrno(errno, "asking another rank about memory");
    }
    Answered answered = {};
    if (!ReceiveWith(fd, &answered, sizeof answered, descriptor)) {
      return errno == EAGAIN ? Status::Deadline("another rank does not answer about memory")
                             : Status::Unavailable("another rank has gone away");
    }
    *bytes = answered.bytes;
    if (answered.magic == kMagic && answered.bytes != 0) return Status::Ok();
    return Status::Unavailable("another rank did not give or take memory");
  };
  const Status status = ask();
  if (!status.ok() && *descriptor >= 0) {
    close(*descriptor);
    *descriptor = -1;
  }
  close(fd);
  return status;
}

Request About(RequestKind kind, const std::string& owner, uint64_t offset, uint64_t bytes) {
  Request request = {kMagic, kind, offset, bytes, {}};
  owner.copy(request.owner, kNameBytes - 1);
  return request;
}

}  // namespace

Status PieceServer::Fetch(const std::string& name, uint64_t offset, int timeout_ms, uint64_t* bytes,
                          int* descriptor) {
  *descriptor = -1;
  const Status status = Ask(name, About(kFetch, "", offset, 0), -1, timeout_ms, bytes, descriptor);
  if (status.ok() && *descriptor < 0)
    return Status::Unavailable("another rank did not give its memory");
  return status;
}

Status PieceServer::Give(const std::string& name, const std::string& owner, uint64_t offset,
                         uint64_t bytes, int descriptor, int timeout_ms) {
  uint64_t done = 0;
  int none = -1;
  const Status status =
      Ask(name, About(kGive, owner, offset, bytes), descriptor, timeout_ms, &done, &none);
  if (none >= 0) close(none);
  return status;
}

Status PieceServer::TakeBack(const std::string& name, const std::string& owner, uint64_t offset,
                             int timeout_ms) {
  uint64_t done = 0;
  int none = -1;
  const Status status = Ask(name, About(kTakeBack, owner, offset, 0), -1, timeout_ms, &done, &none);
  if (none >= 0) close(none);
  return status;
}

}  // namespace gordian::runtime::cuda
