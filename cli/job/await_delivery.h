// Waits at the end for what is sent to others.
#ifndef GORDIAN_CLI_JOB_AWAIT_DELIVERY_H_
#define GORDIAN_CLI_JOB_AWAIT_DELIVERY_H_

#include <cstdint>
#include <functional>

#include "cli/job/launcher.h"

namespace gordian::cli {

struct Delivery {
  std::function<bool()> done;
  uint64_t limit_ns = 0;
  int wake_fd = -1;                 // of what `meanwhile` does
  std::function<void()> meanwhile;  // called every 10 ms
};

// Returns when it is done, at the limit, or when a signal comes that ends jobs.
void AwaitDelivery(const Delivery& delivery, SignalInbox& signals);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_JOB_AWAIT_DELIVERY_H_
