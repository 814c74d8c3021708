// An event that several processes record and wait for: two counters in a memfd. Threads: any, of
// any process.
#ifndef GORDIAN_EMULATOR_ENGINE_PROCESS_SHARED_EVENT_H_
#define GORDIAN_EMULATOR_ENGINE_PROCESS_SHARED_EVENT_H_

#include <atomic>
#include <cstdint>
#include <memory>

namespace gordian::emu {

class SharedEvent {
 public:
  // Returns null if the system gives no shared memory.
  static std::shared_ptr<SharedEvent> Create();
  // Takes ownership of the descriptor. Returns null if it is no event.
  static std::shared_ptr<SharedEvent> Map(int fd);
  ~SharedEvent();
  SharedEvent(const SharedEvent&) = delete;

  int fd() const { return fd_; }

  // Makes a new record, for which later waits wait, and returns its number.
  uint64_t Record() { return page_->recorded.fetch_add(1) + 1; }
  uint64_t Recorded() const { return page_->recorded.load(); }
  // The caller reports that the work before record `sequence` is done. An event stands only for its
  // latest record, so earlier records count as done too.
  void Finish(uint64_t sequence);
  bool IsDone(uint64_t sequence) const { return page_->done.load() >= sequence; }
  // Blocks the calling thread until IsDone.
  void Await(uint64_t sequence) const;

 private:
  struct Page {
    uint64_t magic;
    std::atomic<uint64_t> recorded;
    std::atomic<uint64_t> done;
    std::atomic<uint32_t> bell;  // futex: changes when `done` does
  };

  SharedEvent(int fd, Page* page) : fd_(fd), page_(page) {}

  const int fd_;
  Page* const page_;
};

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_PROCESS_SHARED_EVENT_H_
