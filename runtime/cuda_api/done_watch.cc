#include "runtime/cuda_api/done_watch.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "common/service_thread.h"
#include "runtime/cpu/callbacks.h"

namespace gordian::runtime::cuda {
namespace {

using std::chrono::microseconds;
constexpr microseconds kLeastPause{20}, kMostPause{1000};

struct Waiting {
  AskFn ask;
  std::function<void(grtResult_t)> then;
};

class DoneWatch {
 public:
  void Add(Waiting waiting) {
    const std::lock_guard<std::mutex> lock(mutex_);
    added_.push_back(std::move(waiting));
    if (!started_) MakeServiceThread("gordian-done", [this] { Loop(); }).detach();
    started_ = true;
    changed_.notify_one();
  }

 private:
  void Loop() {
    std::vector<Waiting> all;
    microseconds pause = kLeastPause;
    for (;;) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        const auto has_come = [this] { return !added_.empty(); };
        if (all.empty()) {
          changed_.wait(lock, has_come);
        } else {
          changed_.wait_for(lock, pause, has_come);
        }
        pause = has_come() ? kLeastPause : std::min(2 * pause, kMostPause);
        std::move(added_.begin(), added_.end(), std::back_inserter(all));
        added_.clear();
      }
      const size_t before = all.size();
      std::erase_if(all, [](Waiting& waiting) {
        grtResult_t result = grtInProgress;
        if (!waiting.ask(&result)) return false;
        RunCallbacks({std::move(waiting.then)}, result);
        return true;
      });
      if (all.size() != before) pause = kLeastPause;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Waiting> added_;
  bool started_ = false;
};

}  // namespace

void WhenDone(AskFn ask, std::function<void(grtResult_t)> then) {
  static DoneWatch* watch = new DoneWatch;
  watch->Add({std::move(ask), std::move(then)});
}

}  // namespace gordian::runtime::cuda
