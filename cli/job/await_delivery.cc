#include "cli/job/await_delivery.h"

#include <poll.h>
#include <signal.h>

#include <optional>

#include "common/clock.h"

namespace gordian::cli {

void AwaitDelivery(const Delivery& delivery, SignalInbox& signals) {
  const uint64_t deadline = MonoNs() + delivery.limit_ns;
  bool interrupted = false;
  while (!delivery.done() && !interrupted && MonoNs() < deadline) {
    pollfd waits[2] = {{.fd = signals.fd(), .events = POLLIN, .revents = 0},
                       {.fd = delivery.wake_fd, .events = POLLIN, .revents = 0}};
    poll(waits, 2, 10);
    while (const std::optional<SignalInbox::Received> signal = signals.Next()) {
      interrupted |= signal->number == SIGINT || signal->number == SIGTERM;
    }
    delivery.meanwhile();
  }
}

}  // namespace gordian::cli
