// The life of a resident worker that quits when it is idle or stuck, and of what starts it again:
// the states, and the protocol by which no submission is lost in between. Dekker's shape: each side
// writes, fences, and looks at the other's word.
//
//   submitter                              worker's leader, when it wants to quit
//   S3 publish                             D1 life <- kQuitting
//   S4 fence (seq_cst)                     D2 fence (seq_cst)
//   S5 if life is not kRunning:            D3 anything published? life <- kRunning, go on
//   S6   ring the bell (release)           D4 tell the blocks; each saves its context and arrives
//                                          D5 all have arrived: life <- kDown (release)
//   watcher, when the bell changed:        D6 fence (seq_cst); anything published? ring; leave
//   if life is kDown: life <- kStarting, start the worker: life <- kRunning, fence, look
//
// Needed are S4, D4's arrival, D6's fence and look, and that the watcher starts from kDown alone.
// D2, D3 and the fence at the start only cancel a quit early. tests/unit/runtime/core/
// quit_model_test.cc holds each of these words against all interleavings. A ring must be a change
// of the bell: a value that it had already is none, and then a submission can be lost. The CPU's
// resident thread does not quit: it sleeps on its doorbell (runtime/cpu/doorbell.h), which is the
// same shape without the states.
#ifndef GORDIAN_RUNTIME_CORE_LIFE_H_
#define GORDIAN_RUNTIME_CORE_LIFE_H_

#include <cstdint>

namespace gordian::runtime {

enum WorkerLife : uint32_t { kDown = 0, kStarting = 1, kRunning = 2, kQuitting = 3 };

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CORE_LIFE_H_
