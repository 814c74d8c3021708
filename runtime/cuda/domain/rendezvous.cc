#include "runtime/cuda/domain/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/service_thread.h"

namespace gordian::runtime::cuda {
namespace {

constexpr char kFarewell = 'F';
constexpr char kAlarm = 'A';
constexpr char kDead = 'D';
constexpr uint32_t kMostBytes = 64 << 10;

// What a connecting rank says first.
struct Hello {
  uint32_t magic;
  int32_t rank;
  int32_t ranks;
  uint32_t news;
};
constexpr uint32_t kMagic = 0x31545247;  // "GRT1"

int64_t NowMs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// Waits until `fd` can do `events`, or until the deadline.
Status Wait(int fd, short events, int64_t deadline) {
  for (;;) {
    const int64_t left = deadline - NowMs();
    if (left <= 0) return Status::Deadline("a rank did not come, or answer, in time");
    pollfd p{fd, events, 0};
    const int n = poll(&p, 1, static_cast<int>(std::min<int64_t>(left, 1000)));
    if (n > 0) return Status::Ok();
    if (n < 0 && errno != EINTR) return Status::FromErrno(errno, "poll");
  }
}

Status SendAll(int fd, const void* data, size_t bytes, int64_t deadline) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      at += n;
      bytes -= static_cast<size_t>(n);
    } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (Status s = Wait(fd, POLLOUT, deadline); !s.ok()) return s;
    } else {
      return Status::Unavailable("a rank has gone away");
    }
  }
  return Status::Ok();
}

Status ReceiveAll(int fd, void* data, size_t bytes, int64_t deadline) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = recv(fd, at, bytes, MSG_DONTWAIT);
    if (n > 0) {
      at += n;
      bytes -= static_cast<size_t>(n);
    } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (Status s = Wait(fd, POLLIN, deadline); !s.ok()) return s;
    } else {
      return Status::Unavailable("a rank has gone away");
    }
  }
  return Status::Ok();
}

constexpr size_t kMostDescriptors = 8;

Status SendDescriptors(int fd, const std::vector<int>& descriptors, int64_t deadline) {
  if (Status s = Wait(fd, POLLOUT, deadline); !s.ok()) return s;
  char byte = 0;
  iovec io{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
  memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size() * sizeof(int));
  if (sendmsg(fd, &message, MSG_NOSIGNAL) != 1)
    return Status::FromErrno(errno, "sending a descriptor");
  return Status::Ok();
}

Status ReceiveDescriptors(int fd, size_t count, int64_t deadline, std::vector<int>* descriptors) {
  if (Status s = Wait(fd, POLLIN, deadline); !s.ok()) return s;
  char byte;
  iovec io{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC) != 1) {
    return Status::Unavailable("a rank went away while descriptors were exchanged");
  }
  descriptors->clear();
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t got = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    descriptors->resize(got);
    memcpy(descriptors->data(), CMSG_DATA(header), got * sizeof(int));
  }
  if (descriptors->size() != count) {
    for (const int got : *descriptors) close(got);
    descriptors->clear();
    return Status::DataLoss("a rank sent other descriptors than were awaited");
  }
  return Status::Ok();
}

// The address of an abstract socket, which leaves no file to remove.
socklen_t Address(const std::string& name, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  const std::string path = "gordian-rt-" + name;
  memcpy(address->sun_path + 1, path.data(), path.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + path.size());
}

}  // namespace

Rendezvous::Rendezvous(int rank, int ranks)
    : rank_(rank),
      ranks_(ranks),
      rounds_(rank == 0 ? ranks : 1, -1),
      news_(rank == 0 ? ranks : 1, -1) {}

Rendezvous::~Rendezvous() {
  if (watcher_.joinable()) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = write(wake_, &one, sizeof one);
    watcher_.join();
  }
  Tell(-1, kFarewell, 0);
  for (const int fd : rounds_) {
    if (fd >= 0) close(fd);
  }
  for (const int fd : news_) {
    if (fd >= 0) close(fd);
  }
  if (wake_ >= 0) close(wake_);
}

Status Rendezvous::Join(const std::string& name, int rank, int ranks, int timeout_ms,
                        std::unique_ptr<Rendezvous>* joined) {
  if (ranks < 1 || rank < 0 || rank >= ranks || static_cast<size_t>(ranks) > kMostDescriptors ||
      name.empty() || name.size() > 90) {
    return Status::InvalidArgument("rank, ranks or name make no rendezvous");
  }
  std::unique_ptr<Rendezvous> r(new Rendezvous(rank, ranks));
  const int64_t deadline = NowMs() + timeout_ms;
  if (ranks > 1) {
    if (Status s = rank == 0 ? r->Listen(name, deadline) : r->Connect(name, deadline); !s.ok())
      return s;
  }
  if (Status s = r->Barrier(timeout_ms); !s.ok()) return s;
  *joined = std::move(r);
  return Status::Ok();
}

Status Rendezvous::Listen(const std::string& name, int64_t deadline) {
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) return Status::FromErrno(errno, "socket");
  sockaddr_un address;
  const socklen_t length = Address(name, &address);
  Status status = Status::Ok();
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(listener, 2 * ranks_) != 0) {
    status =
        Status::FromErrno(errno, "cannot listen as " + name + ": is another job using this name?");
  }
  for (int missing = 2 * (ranks_ - 1); status.ok() && missing > 0;) {
    status = Wait(listener, POLLIN, deadline);
    if (!status.ok()) break;
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    Hello hello;
    const bool heard = ReceiveAll(fd, &hello, sizeof hello, deadline).ok();
    const bool ours = heard && hello.magic == kMagic && hello.ranks == ranks_ && hello.rank > 0 &&
                      hello.rank < ranks_;
    std::vector<int>& to = hello.news != 0 ? news_ : rounds_;
    if (!ours || to[hello.rank] >= 0) {  // a stranger, or a rank that comes twice
      close(fd);
      continue;
    }
    to[hello.rank] = fd;
    --missing;
  }
  close(listener);
  return status;
}

Status Rendezvous::Connect(const std::string& name, int64_t deadline) {
  sockaddr_un address;
  const socklen_t length = Address(name, &address);
  for (uint32_t news = 0; news < 2; ++news) {
    int fd = -1;
    while (fd < 0) {
      fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (fd < 0) return Status::FromErrno(errno, "socket");
      if (connect(fd, reinterpret_cast<sockaddr*>(&address), length) == 0) break;
      close(fd);
      fd = -1;
      if (NowMs() >= deadline) return Status::Deadline("rank 0 of " + name + " is not there");
      const timespec pause{0, 2000000};  // a socket's arrival is not announced: poll
      nanosleep(&pause, nullptr);
    }
    (news != 0 ? news_ : rounds_)[0] = fd;
    const Hello hello{kMagic, rank_, ranks_, news};
    if (Status s = SendAll(fd, &hello, sizeof hello, deadline); !s.ok()) return s;
  }
  return Status::Ok();
}

Status Rendezvous::AllGather(const std::string& own, int timeout_ms,
                             std::vector<std::string>* all) {
  if (own.size() > kMostBytes) return Status::InvalidArgument("a message of a round is too long");
  const int64_t deadline = NowMs() + timeout_ms;
  const size_t bytes = own.size();
  std::string joined(bytes * ranks_, '\0');
  if (rank_ == 0) {
    joined.replace(0, bytes, own);
    for (int r = 1; r < ranks_; ++r) {
      uint32_t length;
      if (Status s = ReceiveAll(rounds_[r], &length, sizeof length, deadline); !s.ok()) return s;
      if (length != bytes) return Status::DataLoss("ranks disagree about a round");
      if (Status s = ReceiveAll(rounds_[r], joined.data() + r * bytes, bytes, deadline); !s.ok())
        return s;
    }
    for (int r = 1; r < ranks_; ++r) {
      if (Status s = SendAll(rounds_[r], joined.data(), joined.size(), deadline); !s.ok()) return s;
    }
  } else {
    const auto length = static_cast<uint32_t>(bytes);
    if (Status s = SendAll(rounds_[0], &length, sizeof length, deadline); !s.ok()) return s;
    if (Status s = SendAll(rounds_[0], own.data(), bytes, deadline); !s.ok()) return s;
    if (Status s = ReceiveAll(rounds_[0], joined.data(), joined.size(), deadline); !s.ok())
      return s;
  }
  all->clear();
  for (int r = 0; r < ranks_; ++r) all->push_back(joined.substr(r * bytes, bytes));
  return Status::Ok();
}

Status Rendezvous::Barrier(int timeout_ms) {
  std::vector<std::string> all;
  return AllGather("b", timeout_ms, &all);
}

Status Rendezvous::AllGatherDescriptor(int own, int timeout_ms, std::vector<int>* all) {
  const int64_t deadline = NowMs() + timeout_ms;
  all->assign(ranks_, -1);
  if (ranks_ == 1) return Status::Ok();
  std::vector<int> got;
  if (rank_ != 0) {
    if (Status s = SendDescriptors(rounds_[0], {own}, deadline); !s.ok()) return s;
    if (Status s = ReceiveDescriptors(rounds_[0], ranks_ - 1, deadline, &got); !s.ok()) return s;
    for (int r = 0, i = 0; r < ranks_; ++r) {
      if (r != rank_) (*all)[r] = got[i++];
    }
    return Status::Ok();
  }
  for (int r = 1; r < ranks_; ++r) {
    if (Status s = ReceiveDescriptors(rounds_[r], 1, deadline, &got); !s.ok()) return s;
    (*all)[r] = got[0];
  }
  for (int r = 1; r < ranks_; ++r) {
    std::vector<int> others = {own};
    for (int p = 1; p < ranks_; ++p) {
      if (p != r) others.push_back((*all)[p]);
    }
    if (Status s = SendDescriptors(rounds_[r], others, deadline); !s.ok()) return s;
  }
  return Status::Ok();
}

Status Rendezvous::Watch(std::function<void(int)> dead) {
  if (watcher_.joinable()) return Status::AlreadyExists("watching already");
  wake_ = eventfd(0, EFD_CLOEXEC);
  if (wake_ < 0) return Status::FromErrno(errno, "eventfd");
  dead_ = std::move(dead);
  watcher_ = MakeServiceThread("gordian-peers", [this] { WatchLoop(); });
  return Status::Ok();
}

void Rendezvous::Alarm() { Tell(-1, kAlarm, 0); }

void Rendezvous::Tell(int except, char what, int who) {
  const char news[2] = {what, static_cast<char>(who)};
  for (size_t i = 0; i < news_.size(); ++i) {
    if (news_[i] < 0 || (rank_ == 0 && static_cast<int>(i) == except)) continue;
    // Two bytes always fit, except if the peer does not read any more.
    [[maybe_unused]] const ssize_t n =
        send(news_[i], news, sizeof news, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

Rendezvous::News Rendezvous::Hear(int from) {
  char news[2];
  const ssize_t n = recv(news_[from], news, sizeof news, MSG_WAITALL);
  if (n == sizeof news && news[0] == kFarewell) return rank_ == 0 ? News::kLeft : News::kOver;
  int who = rank_ == 0 ? from : 0;
  if (n == sizeof news && news[0] == kAlarm) who = -1;
  if (n == sizeof news && news[0] == kDead) who = news[1];
  if (rank_ == 0) Tell(from, who < 0 ? kAlarm : kDead, who);
  dead_(who);
  return News::kOver;
}

void Rendezvous::WatchLoop() {
  std::vector<bool> left(news_.size(), false);
  for (;;) {
    std::vector<pollfd> fds = {{wake_, POLLIN, 0}};
    std::vector<int> indices;
    for (size_t i = 0; i < news_.size(); ++i) {
      if (news_[i] < 0 || left[i]) continue;
      fds.push_back({news_[i], POLLIN, 0});
      indices.push_back(static_cast<int>(i));
    }
    if (poll(fds.data(), fds.size(), -1) < 0) continue;
    if (fds[0].revents != 0) return;
    for (size_t i = 1; i < fds.size(); ++i) {
      if (fds[i].revents == 0) continue;
      if (Hear(indices[i - 1]) == News::kOver) return;
      left[indices[i - 1]] = true;
    }
  }
}

}  // namespace gordian::runtime::cuda
