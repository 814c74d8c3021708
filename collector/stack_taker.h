// Stacks of the processes of a node, taken when the analyzer asks for them, beside all other work
// of the collector.
#ifndef GORDIAN_COLLECTOR_STACK_TAKER_H_
#define GORDIAN_COLLECTOR_STACK_TAKER_H_

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

#include "collector/native_stack.h"
#include "collector/process_watch.h"
#include "gordian/v1/event.pb.h"

namespace gordian::collector {

struct StackThread {
  pid_t tid = 0;
  std::string name;
  bool in_call = false;  // of NCCL or CUDA, as far as is known
};

// Native and Python stacks of these threads of one process: everything of StacksTaken but `process`
// and `request`. Never fails: what cannot be had is named in the result. `native` as in
// native_stack.h; Python's are quick.
v1::StacksTaken TakeStacks(pid_t pid, std::span<const StackThread> threads,
                           const NativeStackOptions& native = {});

struct StackTarget {
  uint32_t process = 0;
  ProcessIdentity identity;
  std::vector<StackThread> threads;
};

// Thread-safe. One thread of its own, once something was asked for.
class StackTaker {
 public:
  // `on_results` is called from its thread when Results() has something; must not block.
  explicit StackTaker(std::function<void()> on_results) : on_results_(std::move(on_results)) {}
  ~StackTaker() { Finish(); }
  StackTaker(const StackTaker&) = delete;
  StackTaker& operator=(const StackTaker&) = delete;

  // Begins when an earlier request is done; of several that wait, the latest is kept.
  void Ask(uint64_t request, std::vector<StackTarget> targets);
  // Events since the last call, in order: a StacksTaken each, then StacksDone.
  std::vector<v1::Event> Results();
  // Ends what is under way, soon. Nothing is taken afterwards.
  void Finish();

  // Held while a thread of the job is stopped: states of threads that are read under it are true.
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

#endif  // GORDIAN_COLLECTOR_STACK_TAKER_H_
