// Makes a call when something is done that does not announce its end: a thread polls with growing
// pauses, and sleeps while there is nothing to poll.
//
// Thread rule: any thread. Process-wide; its thread outlives main.
#ifndef GORDIAN_RUNTIME_CUDA_API_DONE_WATCH_H_
#define GORDIAN_RUNTIME_CUDA_API_DONE_WATCH_H_

#include <functional>

#include "runtime/include/gordian/runtime.h"

namespace gordian::runtime::cuda {

// Whether it is done, and how it ended; never waits.
using AskFn = std::function<bool(grtResult_t*)>;

// Calls `then` once, on the thread that runs the library's callbacks, one after the other. Asks on
// a thread of its own alone, every 20 us at first, up to every millisecond.
void WhenDone(AskFn ask, std::function<void(grtResult_t)> then);

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_API_DONE_WATCH_H_
