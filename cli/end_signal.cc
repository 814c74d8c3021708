#include "cli/end_signal.h"

#include <signal.h>

namespace gordian::cli {
namespace {

volatile sig_atomic_t end_signal = 0;
void OnEndSignal(int number) { end_signal = number; }

}  // namespace

void TakeEndSignals(SecondSignal second) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    action.sa_handler = OnEndSignal;
    sigemptyset(&action.sa_mask);
    if (second == SecondSignal::kEnds) action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(number, &action, nullptr);
  }
}

int EndSignal() { return end_signal; }

}  // namespace gordian::cli
