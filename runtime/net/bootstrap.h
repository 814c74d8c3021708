// How the members of a communicator on several nodes find each other: over TCP, by an address and a
// token that are in the communicator's id. The process that made the id answers there. It collects
// what each member tells of itself, and once all have come, sends all of it to each.
//
// Who has the id has the token; whoever has another token is refused and learns nothing. The token
// is sent as it is, so the network must be the job's own, as it must be for the data.
//
// Threads: MakeMeeting any; a Registration one at a time. Nothing here blocks. Errors: texts, for
// people.
#ifndef GORDIAN_RUNTIME_NET_BOOTSTRAP_H_
#define GORDIAN_RUNTIME_NET_BOOTSTRAP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gordian::runtime::net {

inline constexpr uint32_t kWireVersion = 1;
inline constexpr size_t kTokenBytes = 32;

// Where members meet. As bytes it is the first kMeetingBytes of a communicator's id.
struct Meeting {
  std::array<unsigned char, kTokenBytes> token = {};
  std::array<unsigned char, 16> ip = {};  // IPv4: in the first four
  uint16_t port = 0;
  bool is_ipv6 = false;
};
inline constexpr size_t kMeetingBytes = 64;
void WriteMeeting(const Meeting& meeting, unsigned char* id);
// False: the id names no meeting; its members are on one node.
bool ReadMeeting(const unsigned char* id, Meeting* meeting);

// What one member tells the others.
struct Place {
  std::string node;      // members of the same one share memory
  std::string address;   // of its process, as the transport wrote it
  uint64_t process = 0;  // equal for members of one process, and for no others
};

struct Member {
  uint32_t ranks = 0, rank = 0;
  uint64_t agreement = 0;  // a hash of what all members must have alike
  Place place;
};

// Makes a meeting that this process answers until all of its members have been there. `address`:
// the IP address to listen on and to be known by; empty: the first of this host that is up.
bool MakeMeeting(const std::string& address, Meeting* meeting, std::string* error);

// One member's way to the meeting, step by step.
class Registration {
 public:
  enum class State : uint8_t { kUnderWay, kDone, kRefused, kDeserted, kFailed };

  // `patience_ns`: how long it may take to reach the meeting, not how long others may take to come.
  Registration(const Meeting& meeting, const Member& member, int64_t now_ns, int64_t patience_ns);
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  // Does what can be done now. kRefused: the members disagree, or the token is wrong. kDeserted: a
  // member has left before all had come.
  State Step(int64_t now_ns);
  // What to poll for before the next step, and until when; -1: nothing is to be polled.
  int fd() const { return fd_; }
  short events() const { return connected_ && sent_ == out_.size() ? kReadable : kWritable; }
  int64_t deadline_ns() const { return sent_ == out_.size() ? INT64_MAX : deadline_ns_; }

  const std::vector<Place>& places() const { return places_; }  // when done, by rank
  const std::string& why() const { return why_; }

 private:
  static const short kReadable, kWritable;
  State End(State state, const std::string& why);
  State Read();

  const std::string where_;
  const int64_t deadline_ns_;
  int fd_ = -1;
  bool connected_ = false;
  State state_ = State::kUnderWay;
  std::string out_, in_;
  size_t sent_ = 0;
  std::vector<Place> places_;
  std::string why_;
};

}  // namespace gordian::runtime::net

#endif  // GORDIAN_RUNTIME_NET_BOOTSTRAP_H_
