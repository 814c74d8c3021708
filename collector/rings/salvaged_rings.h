// What ring files of a session hold beyond its trace. A collector that was killed leaves both: a
// trace that ends at its last flush, and rings that the job went on to fill; the two overlap.
//
//   SalvagedRings rings(session + "/rings", /*also_living=*/false);
//   ... every event of the trace, in its order: rings.Seen(event);
//   rings.AddMissing(sink);
//
// Files are read, never written or kept open: each is copied into memory of our own first.
#ifndef GORDIAN_COLLECTOR_RINGS_SALVAGED_RINGS_H_
#define GORDIAN_COLLECTOR_RINGS_SALVAGED_RINGS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "collector/process/process_watch.h"
#include "common/ids.h"
#include "gordian/v1/event.pb.h"
#include "proto/ring/layout.h"
#include "proto/ring/record.h"

namespace gordian::collector {

// Not thread-safe.
class SalvagedRings {
 public:
  using Sink = std::function<void(const v1::Event&)>;

  // Copies of ended processes; with `also_living` the linked rings of those that still live, too,
  // which makes sense only when no collector takes records out of them any more.
  SalvagedRings(const std::string& folder, bool also_living);

  size_t files() const { return rings_.size(); }
  const std::vector<std::string>& unreadable() const { return unreadable_; }

  // What the trace has. A record is known by its process and its order, which no two share.
  void Seen(const v1::Event& event);

  // Everything else, as events: the names of calls if there were none, processes that the trace
  // does not know, records thread by thread, and ends of those that are gone. Returns how many
  // records. Once.
  uint64_t AddMissing(const Sink& sink);

 private:
  struct Entry {
    ThreadNumber thread;
    ring::Record record;
    bool seen = false;
  };
  struct Ring {
    std::string name;
    RingName parsed;
    ring::Header header{};
    bool ended = false;
    uint64_t lost = 0;
    uint64_t nccl_calls = 0;
    v1::StateBlock block;  // as the process left it
    uint32_t process = 0;  // 0: not in the trace
    bool end_seen = false;
    std::vector<Entry> entries;                       // thread by thread, as published
    std::unordered_map<uint64_t, uint32_t> by_order;  // place in `entries`
  };
  bool Read(const std::string& path, Ring* ring);

  std::vector<Ring> rings_;
  std::vector<std::string> unreadable_;
  std::map<uint32_t, size_t> of_process_;  // place in rings_
  uint32_t last_number_ = 0;
  uint64_t last_ns_ = 0;
  bool names_seen_ = false;
};

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_RINGS_SALVAGED_RINGS_H_
