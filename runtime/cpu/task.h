// One operation at one rank while it is not finished, and the unit in which operations stand on a
// stream. Only the engine changes them.
#ifndef GORDIAN_RUNTIME_CPU_TASK_H_
#define GORDIAN_RUNTIME_CPU_TASK_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/core/step.h"
#include "runtime/cpu/comm.h"
#include "runtime/include/gordian/runtime_front.h"

namespace gordian::runtime {

struct Unit;
struct Run;
class StreamDriver;

// Bytes [first, last) that an operation reads or writes.
struct Range {
  const unsigned char* first = nullptr;
  const unsigned char* last = nullptr;
  bool Overlaps(const Range& other) const {
    return first < other.last && other.first < last;  // nothing overlaps with no bytes
  }
};

// Who may do a step of a channel (ChanCtx::owner), or begin an operation: one worker at a time.
enum Claim : uint32_t {
  kFree = 0,
  kClaimed = 1,
  kClaimAwaited = 2,  // claimed; leaving it rings the bell for a worker about to sleep
  kClosed = 3,        // no worker can claim it any more
};

struct Task {
  std::shared_ptr<Comm> comm;
  std::shared_ptr<Port> port;
  OpView view;
  std::vector<ChanCtx> channels;
  Range reads, writes;
  std::shared_ptr<Unit> unit;  // until finished; the unit holds the task as well
  uint64_t number = 0;         // in the order of calls at this engine
  grtFrontName_t name = {};    // by a front

  uint32_t begin_claim = kFree;  // a Claim
  std::atomic<bool> begun{false};
  std::atomic<uint32_t> channels_left{1};
  std::atomic<uint64_t> wanted{0};   // members that the last look waited for
  std::atomic<uint64_t> dead{0};     // members whose process has ended
  std::atomic<int> failed{0};        // a grtResult_t: to be given up
  std::atomic<bool> closing{false};  // a worker is finishing it
  std::atomic<bool> freed_slot{false};
  bool quiesced = false;           // failed, and no thread is in a step; the closing worker sets it
  std::atomic<uint64_t> spins{0};  // spin threshold: earned by success

  // Renamed: executed early into memory of our own, since an earlier operation uses the output too.
  std::unique_ptr<unsigned char[]> shadow;
  uint64_t shadow_bytes = 0;

  // 0 until finished, then 1: `result` can be read. A futex.
  std::atomic<uint32_t> done{0};
  grtResult_t result = grtSuccess;
  std::mutex callbacks_mutex;
  std::vector<std::function<void(grtResult_t)>> callbacks;  // the user's
  std::vector<std::shared_ptr<Unit>> joiners;
};

// The units of one communicator in a group whose operations stand on several streams: as NCCL's one
// kernel for them, they start when all of these streams have come to them, and none of the streams
// goes on before all are done.
struct Gang {
  std::atomic<uint32_t> turns_left{0};
  std::mutex mutex;
  std::vector<std::shared_ptr<Unit>> units;  // until all have had their turns
};

// What holds a place in a stream: the operations of one call or one group (or none: a join).
struct Unit {
  std::vector<std::shared_ptr<Task>> tasks;
  std::vector<std::shared_ptr<Task>> joins;  // deferred ones that it waits for
  cudaStream_t stream = nullptr;
  StreamDriver* driver = nullptr;
  uint64_t index = 0;     // on its stream, for the driver
  void* place = nullptr;  // the driver's own account of its stream
  bool strict = true;     // later work of the stream waits for it
  bool early = false;     // its stream lets operations begin early
  uint32_t grace_ms = 0;
  std::shared_ptr<Run> run;
  std::shared_ptr<Gang> gang;     // mostly null
  std::atomic<uint32_t> left{0};  // tasks and joins that are not finished
  std::atomic<bool> published{false};
  std::atomic<bool> turn{false};  // all earlier work of the stream is done
  std::atomic<int> error{0};
  std::atomic<uint32_t> done{0};
};

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CPU_TASK_H_
