// A communicator of which other nodes have members, at one rank: who is where, and what goes
// between the nodes.
//
// Of the messages that a port's member has for a node, one rank there takes all (the relay), and
// writes them into the node's segment for all members on it. Relays of the members of one node are
// spread over the ranks of the other, so data crosses a link once for each node that reads it.
//
// A rank whose program is done with the communicator goes on taking messages until it has told all
// others (kLeave), each has said how many messages it had sent (kLeft), and those have come
// (kGone): then another rank of its node takes over. Until kGone the others hold what they have for
// that node. No program's call waits for that; only the process's end does, for a while
// (courier.h). A connection that is lost before that fails the communicator at all members, by the
// name of the rank and the node.
//
// Threads: what is marked "any"; the rest is the courier's.
#ifndef GORDIAN_RUNTIME_CPU_ACROSS_BRIDGE_H_
#define GORDIAN_RUNTIME_CPU_ACROSS_BRIDGE_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/cpu/across/mailboxes.h"
#include "runtime/cpu/across/wire.h"
#include "runtime/include/gordian/runtime.h"
#include "runtime/net/bootstrap.h"

namespace gordian::runtime {

class Comm;
class Courier;

class Bridge {
 public:
  // Of `comm`, whose members agree on `key`. The courier keeps the communicator until IsOver.
  Bridge(Comm* comm, Courier* courier, uint64_t key);
  ~Bridge();
  Bridge(const Bridge&) = delete;
  Bridge& operator=(const Bridge&) = delete;

  uint64_t key() const { return key_; }
  Courier* courier() const { return courier_; }

  // Any thread. The other half of a port that this member has joined.
  std::shared_ptr<Outbox> Open(uint64_t port_key, const std::shared_ptr<Segment>& segment,
                               uint32_t me, const std::vector<uint32_t>& members);
  // Any thread, after a step in a window slot.
  void Touch(const std::shared_ptr<Outbox>& box, uint32_t slot);
  // Any thread. Operations wait for these ranks: the courier asks whether they are still there.
  void Suspect(uint64_t ranks);
  // Any thread. The communicator has failed here: the others are told.
  void TellFailure();
  // Any thread. The program is done with the communicator, and its operations are done, or it has
  // failed.
  void Leave();
  // Any thread. Members of other nodes, as far as it is known yet.
  std::vector<net::Place> Places() const;
  // Any thread. Blocks until that is known; false: not by the deadline.
  bool AwaitPlaces(int64_t deadline_ns) const;
  // Any thread. "rank 3 on node b".
  std::string NameOf(uint32_t rank) const;

  // Where all members are. Once.
  void SetPlaces(std::vector<net::Place> places);
  bool HasPlaces() const { return peers_known_; }
  // Sends what far nodes lack of slots of a box. `lazily`: as Outbox::Update; the slots of which
  // something is left are returned.
  uint64_t Update(Outbox* box, uint64_t touched, bool lazily);
  void OnMessage(const Wire& wire, const void* data, size_t bytes);
  void OnLost(uint32_t peer, const std::string& why);
  // The peer of a rank of another node; -1: the rank is here, or not known.
  int PeerOf(uint32_t rank) const {
    return rank < far_.size() && far_[rank].is_far && !far_[rank].gone
               ? static_cast<int>(far_[rank].peer)
               : -1;
  }
  bool IsLeaving() const { return leaving_; }
  // It has left, and all others know.
  bool IsOver() const;

 private:
  // A rank of another node.
  struct Far {
    bool is_far = false;
    uint32_t peer = 0;
    bool hello = false;               // it takes messages
    bool told = false;                // that the communicator has failed
    bool knows = false;               // and has said so
    uint64_t sent = 0, received = 0;  // kState and kData
    bool leaves = false;              // its kLeave has come, after which it had sent leave_count
    uint64_t leave_count = 0;
    bool answered = false;  // kLeft has been sent to it
    bool gone = false;      // its kGone has come
    bool has_left = false;  // its answer to our kLeave has come
    uint64_t left_count = 0;
    bool done = false;  // and all of its messages
  };
  void Send(uint32_t to, WireType type, uint64_t number, const std::string& text = std::string());
  void FindFarNodes(Outbox* box);
  int RelayOf(const Outbox& box, FarNode* node);
  void UpdateAll();
  Inbox* InboxOf(uint64_t port_key);
  void Greet(uint32_t rank, uint64_t agreement);
  void Apply(const Wire& wire, const void* data, size_t bytes);
  void Answer(uint32_t rank);
  void TryLeave();
  void SendFailure(uint32_t rank);

  Comm* const comm_;
  Courier* const courier_;
  const uint64_t key_;
  mutable std::mutex mutex_;
  mutable std::condition_variable known_;
  std::vector<net::Place> places_;  // under the mutex
  bool peers_known_ = false;
  std::vector<uint32_t> node_of_;  // by rank; nodes are numbered
  std::vector<Far> far_;           // by rank
  std::vector<std::shared_ptr<Outbox>> boxes_;
  std::map<uint64_t, std::unique_ptr<Inbox>> inboxes_;  // by port key
  bool leaving_ = false;
  bool said_so_ = false;  // kLeave has been sent
};

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CPU_ACROSS_BRIDGE_H_
