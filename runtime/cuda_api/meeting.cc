#include "runtime/cuda_api/meeting.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "runtime/cpu/futex.h"
#include "runtime/cpu/process_life.h"

namespace gordian::runtime::cuda {
namespace {

enum State : uint32_t { kAbsent = 0, kComing = 1, kHere = 2, kGone = 3, kGoneAborted = 4 };

// Between two looks at whether the communicator has failed, which devices do not announce.
constexpr int64_t kLookNs = 100'000'000;

std::atomic<uint32_t>* Atomic(uint32_t* word) {
  return reinterpret_cast<std::atomic<uint32_t>*>(word);
}
uint32_t StateOf(const Attendee& a) { return __atomic_load_n(&a.state, __ATOMIC_ACQUIRE); }

}  // namespace

struct Meeting::Page {
  alignas(128) uint32_t failed;   // Failure; the devices read and write it too
  alignas(128) uint32_t arrived;  // a futex
  uint32_t captured;
  alignas(128) uint32_t ports[kMostPorts];  // tags; from the first on
  alignas(128) Attendee attendees[kMostMeeting];
};

grtResult_t Meeting::Come(const std::string& name, uint32_t ranks, uint32_t rank, Attendee own,
                          std::shared_ptr<Meeting>* out) {
  static_assert(sizeof(Page) <= kPageBytes);
  if (ranks < 1 || ranks > kMostMeeting || rank >= ranks) return grtInvalidArgument;
  std::shared_ptr<SharedMemory> memory = SharedMemory::Open(name, kPageBytes);
  // A page: there as soon as it is open. Of one process all members have the same, perhaps without
  // its descriptor by now.
  if (memory == nullptr) return grtSystemError;
  std::shared_ptr<Meeting> meeting(new Meeting(std::move(memory), ranks, rank));
  Page& page = meeting->shared();
  Attendee& seat = page.attendees[rank];
  uint32_t absent = kAbsent;
  if (!Atomic(&seat.state)->compare_exchange_strong(absent, kComing)) return grtInvalidUsage;
  own.state = kComing;
  own.pid = getpid();
  own.start_time = StartTime(own.pid);
  own.pid_namespace = PidNamespace();
  seat = own;
  Atomic(&seat.state)->store(kHere, std::memory_order_release);
  if (Atomic(&page.arrived)->fetch_add(1) + 1 == ranks) meeting->memory_->Unlink();
  FutexWakeAll(Atomic(&page.arrived));
  *out = std::move(meeting);
  return grtSuccess;
}

bool Meeting::AllHere() const {
  return Atomic(&shared().arrived)->load(std::memory_order_acquire) >= ranks_;
}

grtResult_t Meeting::AwaitAll(int64_t deadline_ns) {
  Page& page = shared();
  while (!AllHere()) {
    const uint32_t arrived = Atomic(&page.arrived)->load();
    if (arrived >= ranks_) break;
    const uint32_t failure = Atomic(&page.failed)->load(std::memory_order_acquire);
    if (failure != 0) return grtRemoteError;
    const int64_t now_ns = NowNs();
    if (now_ns >= deadline_ns) return grtTimeout;
    FutexWait(Atomic(&page.arrived), arrived, std::min(deadline_ns, now_ns + kLookNs));
  }
  for (uint32_t r = 0; r < ranks_; ++r) {
    if (of(r).agreement != of(rank_).agreement) return grtInvalidUsage;
  }
  return grtSuccess;
}

const Attendee& Meeting::of(uint32_t rank) const { return shared().attendees[rank]; }

void Meeting::Leave(bool over) {
  Atomic(&shared().attendees[rank_].state)
      ->store(over ? kGone : kGoneAborted, std::memory_order_release);
}

bool Meeting::HasLeft(uint32_t rank) const { return StateOf(of(rank)) >= kGone; }

bool Meeting::AllAreOver() const {
  for (uint32_t r = 0; r < ranks_; ++r) {
    if (StateOf(of(r)) != kGone) return false;
  }
  return true;
}

bool Meeting::SomeNeverEnd() const {
  for (uint32_t r = 0; r < ranks_; ++r) {
    if (StateOf(of(r)) == kGoneAborted) return true;
  }
  return false;
}

bool Meeting::TakePort(uint32_t tag) {
  for (uint32_t& port : shared().ports) {
    uint32_t taken = 0;
    if (Atomic(&port)->compare_exchange_strong(taken, tag) || taken == tag) return true;
  }
  return false;
}

void Meeting::WakeWaiting() { FutexWakeAll(Atomic(&shared().arrived)); }

void Meeting::NoteCaptured() { Atomic(&shared().captured)->store(1, std::memory_order_release); }

bool Meeting::IsCaptured() const {
  return Atomic(&shared().captured)->load(std::memory_order_acquire) != 0;
}

uint32_t* Meeting::failed() const { return &shared().failed; }

grtResult_t Exchange(const std::string& name, uint32_t ranks, uint32_t rank, uint64_t own,
                     int64_t deadline_ns, std::vector<uint64_t>* all) {
  Attendee value = {};
  value.user_at = own;
  std::shared_ptr<Meeting> meeting;
  grtResult_t result = Meeting::Come(name, ranks, rank, value, &meeting);
  if (result == grtSuccess) result = meeting->AwaitAll(deadline_ns);
  if (result != grtSuccess) return result;
  all->clear();
  for (uint32_t r = 0; r < ranks; ++r) all->push_back(meeting->of(r).user_at);
  return grtSuccess;
}

}  // namespace gordian::runtime::cuda
