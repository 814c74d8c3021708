// Follows one process from its ring file's appearance to its end, and translates its ring and /proc
// into events.
#ifndef GORDIAN_COLLECTOR_PROCESS_TRACKED_PROCESS_H_
#define GORDIAN_COLLECTOR_PROCESS_TRACKED_PROCESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "collector/process/process_watch.h"
#include "collector/process/text_sites.h"
#include "collector/process/thread_sleep.h"
#include "collector/rings/record_check.h"
#include "collector/rings/ring_drainer.h"
#include "collector/rings/ring_file.h"
#include "collector/rings/state_block.h"
#include "collector/stacks/stack_taker.h"
#include "common/ids.h"
#include "gordian/v1/event.pb.h"

namespace gordian::collector {

// Caches build ids by path: most processes of a job map the same files. Not thread-safe.
class BuildIds {
 public:
  const std::string& Of(const std::string& path);

 private:
  std::unordered_map<std::string, std::string> known_;
};

// Not thread-safe.
class TrackedProcess {
 public:
  using Sink = std::function<void(v1::Event&&)>;

  // `ring` may be null: the process lives, but its ring file is unusable, as `why` explains. The
  // collector then watches it from outside only, and every round says so. `build_ids` must outlive
  // this.
  TrackedProcess(ProcessNumber number, std::string ring_name, const RingName& name,
                 std::unique_ptr<RingFile> ring, std::string why, BuildIds* build_ids);

  ProcessNumber number() const { return number_; }
  const std::string& ring_name() const { return ring_name_; }
  const RingName& name() const { return name_; }
  ProcessWatch& watch() { return watch_; }

  // Sends ProcessStarted and the mapped modules. Call it once, first.
  void Announce(const Sink& sink);

  // Sends the records published since the last call, then the modules that their call sites need.
  // Returns how many records it took off the rings.
  uint64_t Drain(uint64_t max_records, const Sink& sink);

  // Asks the watcher for a fresh look at the GPU; returns false if there is no watcher.
  bool AskWatcher();
  // True if the watcher has answered the last AskWatcher.
  bool WatcherAnswered();
  // True if the watcher cannot answer because it is stopped or gone. Reads /proc.
  bool WatcherCannotAnswer() const;

  // Reads the state of threads, streams and communicators. Call it before the drain that
  // FillCollected ends.
  void ReadState(v1::ProcessState* out);
  // True if the collector has every record that `state` counts, or can no longer get it.
  bool CaughtUp(const v1::ProcessState& state) const;
  void FillCollected(v1::ProcessState* state);

  // Threads whose stacks show why the process waits: those in a call that may block; if there are
  // none, those that have used the GPU, or the main thread. With `every_thread`, all but gordian's.
  std::vector<StackThread> StuckThreads(bool every_thread);

  // The text of a call site in Python, of a record that was drained; "": none was told.
  std::string TextOfSite(uint64_t site) const { return text_sites_.Of(site); }

  const RankName& rank_name() const { return rank_name_; }
  // It has ended, and another process may go on as its rank: rounds say that it lives.
  void SetInherited(bool inherited) { inherited_ = inherited; }

  uint64_t records() const { return records_; }
  uint64_t bad_records() const { return bad_records_; }
  uint64_t lost_records();
  // Why nothing of the ring can be read any more, for people; empty: it can.
  std::string WhyUnusable() const;
  // NCCL calls entered, by the process's own count; 0 if the ring cannot be read.
  uint64_t nccl_calls();
  uint64_t skipped_kernels();
  // Reads the whole state block of an ended process. Returns false if there is nothing in it.
  bool ReadFinalBlock(v1::StateBlock* out);

 private:
  void SendModules(const Sink& sink);
  void NoteOtherLosses(v1::StateBlock* block) const;
  void NoteCallSite(uint64_t site);
  void ReadThreads(const ring::Header* header, bool with_details, v1::ProcessState* out);
  bool Covered(uint64_t site) const;

  const ProcessNumber number_;
  const std::string ring_name_;
  const RingName name_;
  const std::unique_ptr<RingFile> ring_;
  const std::string why_no_ring_;
  BuildIds* const build_ids_;
  ProcessWatch watch_;
  ThreadSleeps sleeps_;
  std::unique_ptr<RingDrainer> drainer_;
  StateBlockReader block_;
  std::string executable_;
  RankName rank_name_;
  bool inherited_ = false;
  TickClock clock_;

  uint64_t records_ = 0;
  uint64_t bad_records_ = 0;
  uint32_t round_request_ = 0;
  bool asked_ = false;

  std::vector<ExecutableMapping> modules_;  // sent, ordered by start
  std::unordered_set<uint64_t> no_module_;  // pages of call sites that no mapping covers
  TextSites text_sites_;
  bool modules_stale_ = false;
  uint64_t modules_read_ns_ = 0;
};

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_PROCESS_TRACKED_PROCESS_H_
