// Runs blocks of independent work on several threads. The assignment to threads does not change the
// result: the caller gets results in the blocks' order.
#ifndef GORDIAN_SIMULATOR_PARALLEL_H_
#define GORDIAN_SIMULATOR_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace gordian::simulator {

// Called between blocks, on any thread; true begins no more blocks.
using StopAsked = std::function<bool()>;
// Called after blocks, on one thread, with the blocks done and all of them.
using Progress = std::function<void(int64_t done, int64_t all)>;

// Runs blocks [first, first + count). Calls `make_worker()` once per thread for the function that
// turns a block's number into its result, and `add(result)` on this thread, in order. Returns how
// many blocks it ran: all, or after `stop` the first ones.
template <class Result, class MakeWorker, class Add>
int64_t RunBlocks(int64_t first, int64_t count, int threads, const StopAsked& stop,
                  const Progress& progress, const MakeWorker& make_worker, const Add& add) {
  constexpr int64_t kChunk = 16384;  // results kept at a time
  int64_t done = 0;
  while (done < count) {
    const int64_t chunk = std::min(kChunk, count - done);
    std::vector<Result> results(static_cast<size_t>(chunk));
    std::atomic<int64_t> next{0};
    std::atomic<int64_t> finished{0};
    const int workers = static_cast<int>(std::clamp<int64_t>(threads, 1, chunk));
    const auto work = [&](bool tells) {
      auto worker = make_worker();
      while (!(stop && stop())) {
        const int64_t block = next.fetch_add(1);
        if (block >= chunk) {
          break;
        }
        results[static_cast<size_t>(block)] = worker(first + done + block);
        const int64_t now = finished.fetch_add(1) + 1;
        if (tells && progress) {
          progress(done + now, count);
        }
      }
    };
    std::vector<std::thread> others;
    for (int t = 1; t < workers; ++t) {
      others.emplace_back(work, false);
    }
    work(true);
    for (std::thread& thread : others) {
      thread.join();
    }
    const int64_t begun = std::min(next.load(), chunk);
    for (int64_t block = 0; block < begun; ++block) {
      add(results[static_cast<size_t>(block)]);
    }
    done += begun;
    if (begun < chunk) {
      break;
    }
  }
  return done;
}

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_PARALLEL_H_
