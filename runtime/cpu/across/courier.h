// What owns a process's transport: it sends what members here have put into their lanes, and writes
// what comes from other nodes into the lanes here. One for a process, made when the first of its
// communicators has members on other nodes. It has a thread, asleep while nothing is to be moved.
// Workers that find nothing ready do its work themselves for a while (BeginHelp), one at a time,
// which saves the way over that thread; while any does, the thread leaves the transport to them.
//
// It waits for nothing but its bell, the transport and the members' meetings, all at once: a
// communicator, a connection or an operation that cannot go on holds up no other.
//
// Threads: any, where nothing else is said. Ownership: lives as long as its process, and keeps each
// communicator until its bridge is over. At the process's end, exit() waits for a few seconds until
// the others know that it leaves.
#ifndef GORDIAN_RUNTIME_CPU_ACROSS_COURIER_H_
#define GORDIAN_RUNTIME_CPU_ACROSS_COURIER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cpu/across/bridge.h"
#include "runtime/net/bootstrap.h"
#include "runtime/net/transport.h"

namespace gordian::runtime {

class Courier final : public net::Sink {
 public:
  // This process's; made at the first call. Null and *error: there is no transport.
  static Courier* Get(std::string* error);

  const std::string& address() const { return address_; }
  uint64_t process() const { return process_; }

  // Takes a communicator whose members meet, or are known already (one of the two is given).
  void Add(const std::shared_ptr<Comm>& comm, const net::Meeting* meeting,
           const net::Member& member, std::vector<net::Place> places);
  // Runs `fn` on the courier's thread, soon.
  void Post(std::function<void()> fn);
  struct Touched {
    std::shared_ptr<Comm> comm;
    std::shared_ptr<Outbox> box;
    uint64_t slots = 0;  // modulo 64; the box has them while it is queued
  };
  // Sends what a box lacks, soon.
  void Queue(const std::shared_ptr<Comm>& comm, const std::shared_ptr<Outbox>& box);

  // From BeginHelp to EndHelp a worker calls Help again and again. True: something was moved.
  void BeginHelp() { helpers_.fetch_add(1, std::memory_order_seq_cst); }
  bool Help();
  void EndHelp();

  // The rest is for bridges, on whichever thread does the courier's work.
  bool Connect(const net::Place& place, uint32_t* peer, std::string* error);
  void Send(uint32_t peer, const Wire& wire, const void* data, size_t bytes,
            std::shared_ptr<const void> keeper);
  // Makes sure that the peer's process answers, or else that it is lost.
  void Ask(uint32_t peer);
  // Ranks, with what they have agreed on, that said hello before this process had the communicator.
  std::map<uint32_t, uint64_t> TakeEarlyHellos(uint64_t comm, uint32_t rank);

  void OnMessage(const void* header, size_t header_bytes, const void* data,
                 size_t data_bytes) override;
  void OnLost(uint32_t peer, const std::string& why) override;

 private:
  struct Entry {
    std::shared_ptr<Comm> comm;
    std::unique_ptr<net::Registration> registration;  // until it has ended
  };
  struct Peer {
    uint64_t process = 0;
    int64_t heard_ns = 0;
    int64_t asked_ns = 0;  // 0: it has answered
    bool lost = false;
    std::string why;
  };

  Courier();
  bool Open(std::string* error);
  void Main();
  // One round of its work; the caller has work_.
  bool Round();
  bool RunPosted();
  bool SendLate();
  bool Register();
  void Sleep();
  void Wake();
  void Ring();
  // At exit: until all communicators of this process have left, or the time is up.
  void Linger();
  void End();

  std::unique_ptr<net::Transport> transport_;
  std::string address_;
  uint64_t process_ = 0;
  int64_t deadline_ns_ = 0;  // after which a process that does not answer is lost
  int bell_ = -1;            // an eventfd
  std::atomic<uint32_t> asleep_{0};
  std::atomic<uint32_t> helpers_{0};

  std::mutex mutex_;  // what is below
  std::vector<std::function<void()>> posted_;
  std::vector<Touched> touched_;
  std::condition_variable over_;
  bool ended_ = false;  // all has been done before the process's end

  // Whoever does the work holds it, and what is below.
  std::mutex work_;
  std::vector<Touched> late_;  // news that can wait until there is nothing else to do
  int busy_rounds_ = 0;
  bool ends_ = false;                                     // the process
  std::map<std::pair<uint64_t, uint32_t>, Entry> comms_;  // by (key, rank)
  std::map<uint64_t, uint32_t> peers_by_process_;
  std::vector<Peer> peers_;
  // Of communicators that this process does not have yet.
  std::map<std::pair<uint64_t, uint32_t>, std::map<uint32_t, uint64_t>> early_hellos_;
};

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CPU_ACROSS_COURIER_H_
