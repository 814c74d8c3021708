// The other side of the comparison: decides what is stuck the straightforward way, from nothing, at
// every round: build all operations anew from all records so far, then go over all of them until
// nothing more can move. What the incremental model saves is the work that this repeats.
#ifndef GORDIAN_BENCH_ANALYZE_NAIVE_DECIDER_H_
#define GORDIAN_BENCH_ANALYZE_NAIVE_DECIDER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gordian/v1/event.pb.h"
#include "proto/ring/record.h"

namespace gordian::bench {

class NaiveDecider {
 public:
  void OnEvent(const v1::Event& event);

  // Processes in the shortest cycle of waits at the last two rounds, if both found one; else empty.
  const std::set<uint32_t>& cycle() const { return confirmed_; }

 private:
  enum class What : uint8_t { kOther, kCollective, kSend, kReceive, kMakeCommunicator };
  struct Record {  // what it needs of one, translated once
    uint32_t process, thread, comm, stream;
    uint64_t uid, sequence, ordinal;
    int rank, peer;
    uint32_t size;
    What what;
    bool begins;
  };

  void Keep(uint32_t process, const ring::Record& record);
  void Decide(const v1::Round& round);

  std::map<uint32_t, std::string> symbols_;
  std::vector<Record> records_;
  std::set<uint32_t> last_, confirmed_;
};

}  // namespace gordian::bench

#endif  // GORDIAN_BENCH_ANALYZE_NAIVE_DECIDER_H_
