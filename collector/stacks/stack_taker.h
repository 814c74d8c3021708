// Takes stacks of a node's processes when the analyzer asks for them, in a thread of its own.
#ifndef GORDIAN_COLLECTOR_STACKS_STACK_TAKER_H_
#define GORDIAN_COLLECTOR_STACKS_STACK_TAKER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "collector/process/process_watch.h"
#include "collector/stacks/native_stack.h"
#include "collector/stacks/site_places.h"
#include "gordian/v1/event.pb.h"

namespace gordian::collector {

struct StackThread {
  pid_t tid = 0;
  std::string name;
  bool in_call = false;  // of NCCL or CUDA, as far as known
};

// Native and Python stacks of these threads, and the places of `sites`: everything of StacksTaken
// but `process` and `request`. Never fails: the result names what could not be read. `native` as in
// native_stack.h; the Python part is quick.
v1::StacksTaken TakeStacks(pid_t pid, std::span<const StackThread> threads,
                           const NativeStackOptions& native = {},
                           std::span<const SiteToPlace> sites = {});

struct StackTarget {
  uint32_t process = 0;
  ProcessIdentity identity;
  std::vector<StackThread> threads;
  std::vector<SiteToPlace> sites;
};

// Thread-safe. Starts its one thread with the first request.
class StackTaker {
 public:
  // The thread calls `on_results` when Results() has something; it must not block.
  explicit StackTaker(std::function<void()> on_results) : on_results_(std::move(on_results)) {}
  ~StackTaker() { Finish(); }
  StackTaker(const StackTaker&) = delete;
  StackTaker& operator=(const StackTaker&) = delete;

  // Takes requests one after the other; of several that wait, only the latest.
  void Ask(uint64_t request, std::vector<StackTarget> targets);
  // Returns the events since the last call, in order: the StacksTaken of a request, then
  // StacksDone.
  std::vector<v1::Event> Results();
  // Ends the current request soon, and takes nothing afterwards.
  void Finish();

  // Held while a thread of the job is stopped: thread states read under it are the job's own.
  std::mutex& while_held() { return while_held_; }

 private:
  struct Request {
    uint64_t number = 0;
    std::vector<StackTarget> targets;
  };
  void Run();
  void Answer(const Request& request);
  void Put(v1::Event&& event);

  const std::function<void()> on_results_;
  std::mutex while_held_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Request> wanted_;
  std::vector<v1::Event> results_;
  std::atomic<bool> finish_ = false;
  std::thread thread_;
};

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_STACKS_STACK_TAKER_H_
