// What a worker that finds nothing ready sleeps on, and what wakes it: a page that its own process
// makes and that peers map by /proc/<pid>/fd/<fd>, so that nothing is left behind when a process
// dies. A peer's bell that cannot be had is not rung: every sleep with work outstanding has a
// bound, which alone keeps things going.
//
// The sleeper announces itself, looks once more, and sleeps on the bell's value of before; who has
// committed something fences and looks whether anyone sleeps. Of the two looks at least one sees
// the other's write.
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

  // This process's own. Never null: without memfd nobody else can ring it.
  static std::shared_ptr<Doorbell> Make();
  // Of a peer, or of this process. Null when it cannot be had.
  static std::shared_ptr<Doorbell> Open(pid_t pid, int fd);

  int fd() const { return fd_; }
  uint32_t Value() const { return page_->bell.load(std::memory_order_acquire); }
  void Announce() { page_->sleepers.fetch_add(1, std::memory_order_seq_cst); }
  void Withdraw() { page_->sleepers.fetch_sub(1, std::memory_order_seq_cst); }
  void Sleep(uint32_t value, int64_t deadline_ns);
  // Wakes who sleeps. Cheap when nobody does.
  void Ring();

 private:
  Doorbell(DoorbellPage* page, int fd, bool mapped) : page_(page), fd_(fd), mapped_(mapped) {}

  DoorbellPage* const page_;
  const int fd_;  // -1: of another process
  const bool mapped_;
};

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CPU_DOORBELL_H_
