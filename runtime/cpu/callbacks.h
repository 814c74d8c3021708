// Calls the user's callbacks on a thread of their own, in the order of completion: they may block,
// and no operation waits for them. The thread is there from the first callback on, asleep
// otherwise. Threads: any.
#ifndef GORDIAN_RUNTIME_CPU_CALLBACKS_H_
#define GORDIAN_RUNTIME_CPU_CALLBACKS_H_

#include <functional>
#include <vector>

#include "runtime/include/gordian/runtime.h"

namespace gordian::runtime {

void RunCallbacks(std::vector<std::function<void(grtResult_t)>> callbacks, grtResult_t result);

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CPU_CALLBACKS_H_
