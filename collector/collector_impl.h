// The inside of Collector: collector.cc has the loop, records and rounds; collector_processes.cc
// follows processes and their ring files.
#ifndef GORDIAN_COLLECTOR_COLLECTOR_IMPL_H_
#define GORDIAN_COLLECTOR_COLLECTOR_IMPL_H_

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/collector.h"
#include "collector/process/process_watch.h"
#include "collector/process/tracked_process.h"
#include "collector/rings/salvage.h"
#include "collector/stacks/stack_taker.h"
#include "collector/uplink/fleet_link.h"
#include "collector/uplink/link.h"
#include "collector/uplink/uplink.h"
#include "common/clock.h"
#include "gordian/v1/ingest.pb.h"

namespace gordian::collector {

// Keys of epoll events; larger keys are process numbers.
inline constexpr uint64_t kWakeKey = 0;
inline constexpr uint64_t kDirKey = 1;
inline constexpr uint64_t kFirstProcessKey = 2;

class Collector::Impl {
 public:
  explicit Impl(Options options) : options_(std::move(options)) {}
  ~Impl() {
    (void)Stop();
    for (const int fd : {wake_fd_, epoll_fd_}) {  // a late NoteExit still wakes the thread
      if (fd >= 0) {
        close(fd);
      }
    }
  }

  Status Start();
  void NoteExit(pid_t pid, int wait_status) {
    exits_.Note(pid, wait_status, MonoNs());
    Wake();
  }
  void NoteKill(const ProcessIdentity& process) {
    const std::lock_guard lock(mutex_);
    killed_.push_back(process);
  }
  void JobEnded(v1::ExitKind kind, int value, bool killed);
  Status Stop();
  Stats stats() const;
  bool TakingStacks() const { return stacks_asked_ > stacks_done_; }

 private:
  struct JobEnd {
    v1::ExitKind kind;
    int value;
    bool killed;
  };
  struct Followed {
    std::unique_ptr<TrackedProcess> process;
    std::optional<uint64_t> ended_ns;  // when the collector first saw it dead
    std::optional<ExitStatus> status;  // from the kernel, or because exec replaced the process
    bool heirs_sought = false;
    std::vector<ProcessIdentity> heirs;  // may go on as its rank: what it forked, or a wrapper
  };
  struct Unready {
    uint64_t first_ns;
    uint64_t next_ns;
    bool given_up = false;
  };

  void Run();
  void Wait(uint64_t ns);
  void Wake() {
    const uint64_t one = 1;
    if (wake_fd_ >= 0 && write(wake_fd_, &one, sizeof(one)) < 0) {
      // The counter is full, so the descriptor is readable already.
    }
  }

  // Parts of a pass; only the collector's thread calls them.
  void FindProcesses();
  void TryAdopt(const std::string& name);
  void Follow(std::unique_ptr<TrackedProcess> process);
  uint64_t DrainAll(bool even_if_full);
  void DrainDry(TrackedProcess* process);
  void NoteEnded();
  void FinishEnded(bool no_grace);
  bool HeirsLive(Followed* ended);
  bool AnyEnded() const;
  bool KilledByUs(const ProcessIdentity& process);
  void AnswerRound(uint64_t round);
  void AwaitWatchers();
  void SalvageSome(size_t files);
  void AskForStacks(const v1::StacksRequest& request);
  void TellStacks();
  void EndAll();

  void Emit(v1::Event&& event);
  void Flush();
  void PublishStats();

  const Options options_;
  ExitNotes exits_;
  int wake_fd_ = -1;
  int epoll_fd_ = -1;
  std::unique_ptr<RingDirWatch> dir_;
  std::optional<OwnedFolder> rings_;
  std::unique_ptr<RingKeeper> keeper_;  // of rings_
  void MakeLink(v1::Hello hello);

  std::unique_ptr<Link> uplink_;
  FleetLink* fleet_ = nullptr;  // uplink_ as a FleetLink, else null
  std::thread thread_;
  bool started_ = false;
  bool stopped_ = false;
  bool job_ending_ = false;  // the launcher has ended: nothing inherits a rank

  // Shared with callers and the uplink's threads, under mutex_.
  mutable std::mutex mutex_;
  std::condition_variable job_end_sent_;
  std::optional<JobEnd> job_end_;
  bool job_end_done_ = false;
  std::optional<uint64_t> round_wanted_;
  std::optional<v1::StacksRequest> stacks_wanted_;
  std::vector<ProcessIdentity> killed_;  // NoteKill
  Stats stats_;
  std::atomic<bool> stop_ = false;
  std::atomic<uint64_t> stacks_asked_ = 0;  // the latest request
  std::atomic<uint64_t> stacks_done_ = 0;   // answered as far as possible

  // Only the collector's thread uses these.
  std::map<uint32_t, Followed> processes_;                  // by number
  std::unordered_map<std::string, uint32_t> by_ring_name_;  // of those in processes_
  std::map<std::string, Unready> unready_;
  std::set<std::string> done_names_;  // never adopt again: being salvaged, or not removable
  std::deque<std::string> to_salvage_;
  BuildIds build_ids_;
  uint32_t next_number_ = 1;
  v1::EventBatch batch_;
  uint64_t batch_bytes_ = 0;
  uint64_t flushed_ns_ = 0;
  uint64_t stats_published_ns_ = 0;
  // Counts of ended processes; PublishStats adds the living ones.
  uint64_t records_before_ = 0, lost_before_ = 0, skipped_before_ = 0, bad_before_ = 0;
  uint64_t adopted_ = 0, refused_ = 0, rounds_ = 0, last_round_ns_ = 0;
  StackTaker taker_{[this] { Wake(); }};
  TrackedProcess::Sink sink_ = [this](v1::Event&& event) { Emit(std::move(event)); };
};

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_COLLECTOR_IMPL_H_
