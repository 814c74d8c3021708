// What a worker that finds nothing ready sleeps on, and what wakes it: a page that its own process
// makes and that peers map by /proc/<pid>/fd/<fd>, so that nothing is left behind when a process
// dies. A peer's bell that cannot be had is not rung: every sleep with work outstanding has a
// bound, which alone keeps things going.
//
// The sleeper announces itself, looks for work once more, and sleeps on the value that the bell had
// before; a worker that has committed a step fences and looks for a sleeper. At least one of the
// two sees the other's write.
#ifndef GORDIAN_RUNTIME_CPU_DOORBELL_H_
#define GORDIAN_RUNTIME_CPU_DOORBELL_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace gordian::runtime {

struct DoorbellPage {
  std::atomic<uint32_t> bell;
  std::atomic<uint32_t> sleepers;
};

class Doorbell {
 public:
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  // This process's own. Never null: without memfd other processes cannot ring it.
  static std::shared_ptr<Doorbell> Make();
  // Of a peer, or of this process. Null when it cannot be had.
  static std::shared_ptr<Doorbell> Open(pid_t pid, int fd);

  int fd() const { return fd_; }
  uint32_t Value() const {
    // litmus: bell.value
    return page_->bell.load(std::memory_order_acquire);
  }
  void Announce() {
    // litmus: bell.announce
    page_->sleepers.fetch_add(1, std::memory_order_seq_cst);
  }
  void Withdraw() { page_->sleepers.fetch_sub(1, std::memory_order_seq_cst); }
  void Sleep(uint32_t value, int64_t deadline_ns);
  // Wakes the sleeper. Cheap without one.
  void Ring();

 private:
  Doorbell(DoorbellPage* page, int fd, bool mapped) : page_(page), fd_(fd), mapped_(mapped) {}

  DoorbellPage* const page_;
  const int fd_;  // -1: of another process
  const bool mapped_;
};

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CPU_DOORBELL_H_
