#include "runtime/net/bootstrap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "common/service_thread.h"
#include "runtime/net/bytes.h"

namespace gordian::runtime::net {
namespace {

constexpr char kMagic[8] = {'G', 'R', 'T', 'n', 'o', 'd', 'e', 's'};
// A frame is its length in four bytes and so many bytes. Of a member's, and of the table's.
constexpr uint32_t kMostMemberBytes = 64 << 10;
constexpr uint32_t kMostTableBytes = 64 << 20;
// Of strangers: connections that have not yet shown a token.
constexpr size_t kMostStrangers = 1024;

enum Answer : uint32_t { kTable = 0, kRefusal = 1, kDesertion = 2 };

union SocketAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

socklen_t Fill(const Meeting& meeting, SocketAddress* address) {
  std::memset(address, 0, sizeof *address);
  if (meeting.is_ipv6) {
    address->v6.sin6_family = AF_INET6;
    address->v6.sin6_port = htons(meeting.port);
    std::memcpy(&address->v6.sin6_addr, meeting.ip.data(), 16);
    return sizeof address->v6;
  }
  address->v4.sin_family = AF_INET;
  address->v4.sin_port = htons(meeting.port);
  std::memcpy(&address->v4.sin_addr, meeting.ip.data(), 4);
  return sizeof address->v4;
}

std::string TextOf(const Meeting& meeting) {
  char text[INET6_ADDRSTRLEN] = "?";
  inet_ntop(meeting.is_ipv6 ? AF_INET6 : AF_INET, meeting.ip.data(), text, sizeof text);
  return (meeting.is_ipv6 ? "[" + std::string(text) + "]" : std::string(text)) + ":" +
         std::to_string(meeting.port);
}

// The first address of an interface that is up: not the loopback's, if there is another one.
bool OwnAddress(Meeting* meeting) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return false;
  int best = 0;
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET) continue;  // IPv6 only when it is named: its first is often link-local
    const int rank = (each->ifa_flags & IFF_LOOPBACK) != 0 ? 1 : 2;
    if (rank <= best) continue;
    best = rank;
    sockaddr_in address;
    std::memcpy(&address, each->ifa_addr, sizeof address);
    std::memcpy(meeting->ip.data(), &address.sin_addr, 4);
  }
  freeifaddrs(all);
  return best != 0;
}

std::string Framed(const std::string& body) {
  std::string frame;
  PutNumber(body.size(), 4, &frame);
  return frame + body;
}

std::string RefusalFrame(Answer answer, const std::string& why) {
  std::string body;
  PutNumber(answer, 4, &body);
  PutText(why, &body);
  return Framed(body);
}

// Equal in a time that does not tell where they differ.
bool SameToken(std::string_view a, const std::array<unsigned char, kTokenBytes>& b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < b.size() && i < a.size(); ++i) {
    difference |= static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ b[i]);
  }
  return difference == 0;
}

// A meeting at the process that made it. Its thread ends with it.
class Host {
 public:
  Host(int fd, const std::array<unsigned char, kTokenBytes>& token) : fd_(fd), token_(token) {}
  ~Host() { close(fd_); }

  void Main() {
    while (!over_) {
      std::vector<pollfd> polled = {{fd_, POLLIN, 0}};
      for (const auto& guest : guests_) {
        const short events = guest->out.empty() ? POLLIN : POLLOUT;
        polled.push_back({guest->fd, events, 0});
      }
      if (poll(polled.data(), polled.size(), -1) < 0) continue;
      for (size_t i = 1; i < polled.size(); ++i) {
        if (polled[i].revents != 0) Serve(guests_[i - 1].get());
      }
      std::erase_if(guests_, [](const auto& guest) { return guest->over; });
      if (polled[0].revents != 0) Accept();
      Conclude();
    }
  }

 private:
  struct Guest {
    int fd = -1;
    bool over = false, is_member = false, told = false;
    uint32_t rank = 0;
    std::string in, out;
    ~Guest() { close(fd); }
  };

  void Accept() {
    const int fd = accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    auto guest = std::make_unique<Guest>();
    guest->fd = fd;
    // The oldest stranger makes room for the newest: a member shows its token at once.
    const auto strangers =
        std::count_if(guests_.begin(), guests_.end(), [](const auto& g) { return !g->is_member; });
    if (static_cast<size_t>(strangers) >= kMostStrangers) {
      guests_.erase(std::find_if(guests_.begin(), guests_.end(),
                                 [](const auto& g) { return !g->is_member; }));
    }
    guests_.push_back(std::move(guest));
  }

  void Serve(Guest* guest) {
    if (!guest->out.empty()) {
      const ssize_t sent = send(guest->fd, guest->out.data(), guest->out.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN && errno != EINTR) guest->over = true;
      if (sent > 0) guest->out.erase(0, static_cast<size_t>(sent));
      if (guest->out.empty() && guest->told) {
        guest->over = true;
        if (guest->is_member) ++served_;
      }
      return;
    }
    char bytes[4096];
    const ssize_t got = recv(guest->fd, bytes, sizeof bytes, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
      Leave(guest);
      return;
    }
    if (got < 0) return;
    guest->in.append(bytes, static_cast<size_t>(got));
    if (guest->in.size() < 4) return;
    const uint64_t length = Reader(guest->in).Number(4);
    if (guest->is_member || length > kMostMemberBytes) {
      Refuse(guest, "this is no member's registration");
    } else if (guest->in.size() - 4 >= length) {
      Register(guest, std::string_view(guest->in).substr(4, length));
    }
  }

  // A member that has gone before all have come: the others would wait for it.
  void Leave(Guest* guest) {
    guest->over = true;
    if (guest->is_member && !guest->told) {
      if (!failed_.empty()) return;
      failure_ = kDesertion;
      failed_ = "rank " + std::to_string(guest->rank) + " on node " + members_[guest->rank].node +
                " left before all members had come";
    }
  }

  static void Refuse(Guest* guest, const std::string& why) {
    guest->out = RefusalFrame(kRefusal, why);
    guest->told = true;
  }

  void Register(Guest* guest, std::string_view body) {
    Reader read(body);
    const std::string_view token = read.Bytes(kTokenBytes);
    if (!read.ok() || !SameToken(token, token_)) return Refuse(guest, "the token is wrong");
    const uint64_t version = read.Number(4);
    if (version != kWireVersion) {
      return Refuse(guest, "this member speaks version " + std::to_string(version) +
                               " of the protocol, the others version " +
                               std::to_string(kWireVersion));
    }
    const auto ranks = static_cast<uint32_t>(read.Number(4));
    const auto rank = static_cast<uint32_t>(read.Number(4));
    const uint64_t agreement = read.Number(8);
    Place place;
    place.node = read.Text();
    place.address = read.Text();
    place.process = read.Number(8);
    if (!read.ok() || ranks == 0 || rank >= ranks) {
      return Refuse(guest, "this is no member's registration");
    }
    if (members_.empty()) {
      members_.resize(ranks);
      here_.resize(ranks);
      agreement_ = agreement;
    }
    if (ranks != members_.size() || agreement != agreement_ || here_[rank]) {
      failed_ = "rank " + std::to_string(rank) + " on node " + place.node +
                (ranks == members_.size() && agreement == agreement_
                     ? " has come twice"
                     : " has other arguments than the members that came before");
      return Refuse(guest, failed_);
    }
    here_[rank] = true;
    ++arrived_;
    members_[rank] = std::move(place);
    guest->is_member = true;
    guest->rank = rank;
  }

  // Once it is known how it ends, all that are there, or come later, are told.
  void Conclude() {
    const bool complete = !members_.empty() && arrived_ == members_.size();
    if (failed_.empty() && !complete) return;
    std::string frame;
    if (!failed_.empty()) {
      frame = RefusalFrame(failure_, failed_);
    } else {
      std::string body;
      PutNumber(kTable, 4, &body);
      PutNumber(members_.size(), 4, &body);
      for (const Place& place : members_) {
        PutText(place.node, &body);
        PutText(place.address, &body);
        PutNumber(place.process, 8, &body);
      }
      frame = Framed(body);
    }
    for (const auto& guest : guests_) {
      if (!guest->is_member || guest->told) continue;
      guest->out = frame;
      guest->told = true;
    }
    if (complete && served_ == members_.size()) over_ = true;
  }

  const int fd_;
  const std::array<unsigned char, kTokenBytes> token_;
  std::vector<std::unique_ptr<Guest>> guests_;
  std::vector<Place> members_;
  std::vector<bool> here_;
  uint64_t agreement_ = 0;
  size_t arrived_ = 0, served_ = 0;
  Answer failure_ = kRefusal;
  std::string failed_;  // why the communicator cannot be; empty: it can
  bool over_ = false;
};

}  // namespace

void WriteMeeting(const Meeting& meeting, unsigned char* id) {
  std::memset(id, 0, kMeetingBytes);
  std::memcpy(id, kMagic, sizeof kMagic);
  std::memcpy(id + 8, meeting.token.data(), kTokenBytes);
  std::memcpy(id + 40, meeting.ip.data(), meeting.ip.size());
  id[56] = static_cast<unsigned char>(meeting.port >> 8);
  id[57] = static_cast<unsigned char>(meeting.port & 0xff);
  id[58] = meeting.is_ipv6 ? 1 : 0;
}

bool ReadMeeting(const unsigned char* id, Meeting* meeting) {
  if (std::memcmp(id, kMagic, sizeof kMagic) != 0) return false;
  std::memcpy(meeting->token.data(), id + 8, kTokenBytes);
  std::memcpy(meeting->ip.data(), id + 40, meeting->ip.size());
  meeting->port = static_cast<uint16_t>(id[56] << 8 | id[57]);
  meeting->is_ipv6 = id[58] != 0;
  return true;
}

bool MakeMeeting(const std::string& address, Meeting* meeting, std::string* error) {
  *meeting = Meeting();
  if (!address.empty()) {
    meeting->is_ipv6 = address.find(':') != std::string::npos;
    if (inet_pton(meeting->is_ipv6 ? AF_INET6 : AF_INET, address.c_str(), meeting->ip.data()) !=
        1) {
      *error = "no IP address: " + address;
      return false;
    }
  } else if (!OwnAddress(meeting)) {
    *error = "this host has no IP address that is up";
    return false;
  }
  const int family = meeting->is_ipv6 ? AF_INET6 : AF_INET;
  const int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  SocketAddress bound;
  socklen_t length = Fill(*meeting, &bound);
  bool fine = fd >= 0 && bind(fd, &bound.any, length) == 0 && listen(fd, SOMAXCONN) == 0 &&
              getsockname(fd, &bound.any, &length) == 0;
  meeting->port = ntohs(meeting->is_ipv6 ? bound.v6.sin6_port : bound.v4.sin_port);
  fine = fine && getrandom(meeting->token.data(), kTokenBytes, 0) == kTokenBytes;
  if (!fine) {
    *error = "cannot listen on " + TextOf(*meeting) + ": " + std::strerror(errno);
    if (fd >= 0) close(fd);
    return false;
  }
  auto host = std::make_shared<Host>(fd, meeting->token);
  MakeServiceThread("gordian-meeting", [host] { host->Main(); }).detach();
  return true;
}

const short Registration::kReadable = POLLIN;
const short Registration::kWritable = POLLOUT;

Registration::Registration(const Meeting& meeting, const Member& member, int64_t now_ns,
                           int64_t patience_ns)
    : where_(TextOf(meeting)), deadline_ns_(now_ns + patience_ns) {
  std::string body(reinterpret_cast<const char*>(meeting.token.data()), kTokenBytes);
  PutNumber(kWireVersion, 4, &body);
  PutNumber(member.ranks, 4, &body);
  PutNumber(member.rank, 4, &body);
  PutNumber(member.agreement, 8, &body);
  PutText(member.place.node, &body);
  PutText(member.place.address, &body);
  PutNumber(member.place.process, 8, &body);
  out_ = Framed(body);
  SocketAddress address;
  const socklen_t length = Fill(meeting, &address);
  fd_ = socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ < 0 || (connect(fd_, &address.any, length) != 0 && errno != EINPROGRESS)) {
    End(State::kFailed, "the members' meeting at " + where_ + ": " + std::strerror(errno));
  }
}

Registration::~Registration() {
  if (fd_ >= 0) close(fd_);
}

Registration::State Registration::End(State state, const std::string& why) {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
  why_ = why;
  return state_ = state;
}

Registration::State Registration::Step(int64_t now_ns) {
  if (state_ != State::kUnderWay) return state_;
  if (!connected_ || sent_ < out_.size()) {
    pollfd writable = {fd_, POLLOUT, 0};
    if (poll(&writable, 1, 0) == 1) {
      int error = 0;
      socklen_t length = sizeof error;
      getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &length);
      if (error != 0) {
        return End(State::kFailed,
                   "the members' meeting at " + where_ + ": " + std::strerror(error));
      }
      connected_ = true;
      const ssize_t sent = send(fd_, out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
      if (sent > 0) sent_ += static_cast<size_t>(sent);
    }
    if (sent_ < out_.size()) {
      if (now_ns < deadline_ns_) return state_;
      return End(State::kFailed, "the members' meeting at " + where_ + " does not answer");
    }
  }
  return Read();
}

Registration::State Registration::Read() {
  for (;;) {
    char bytes[16384];
    const ssize_t got = recv(fd_, bytes, sizeof bytes, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return state_;
    if (got <= 0) {
      return End(State::kFailed, "the members' meeting at " + where_ +
                                     " ended before all members had come: the process that made "
                                     "the communicator's id has ended");
    }
    in_.append(bytes, static_cast<size_t>(got));
    if (in_.size() < 4) continue;
    const uint64_t length = Reader(in_).Number(4);
    if (length > kMostTableBytes) break;
    if (in_.size() - 4 < length) continue;
    Reader read(std::string_view(in_).substr(4, length));
    const uint64_t answer = read.Number(4);
    if (answer == kRefusal || answer == kDesertion) {
      return End(answer == kRefusal ? State::kRefused : State::kDeserted,
                 "the members' meeting at " + where_ + ": " + std::string(read.Text()));
    }
    const uint64_t count = read.Number(4);
    for (uint64_t i = 0; i < count && read.ok(); ++i) {
      Place place;
      place.node = read.Text();
      place.address = read.Text();
      place.process = read.Number(8);
      places_.push_back(std::move(place));
    }
    if (!read.ok() || !read.AtEnd()) break;
    return End(State::kDone, "");
  }
  return End(State::kFailed, "what answers at " + where_ + " is no members' meeting");
}

}  // namespace gordian::runtime::net
