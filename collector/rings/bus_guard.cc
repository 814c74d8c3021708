#include "collector/rings/bus_guard.h"

#include <setjmp.h>
#include <signal.h>

#include <atomic>
#include <cstdint>
#include <mutex>

namespace gordian::collector {
namespace {

struct ActiveGuard {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  sigjmp_buf target;
};

// Set only while an access runs. volatile: the handler runs within that same thread.
thread_local ActiveGuard* volatile active_guard = nullptr;

struct sigaction previous_action;

void OnBus(int signal, siginfo_t* info, void* context) {
  ActiveGuard* const guard = active_guard;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (guard != nullptr && address >= guard->begin && address < guard->end) {
    siglongjmp(guard->target, 1);
  }
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal, info, context);
  } else if (previous_action.sa_handler == SIG_DFL || previous_action.sa_handler == SIG_IGN) {
    // Not ours: on return the instruction faults again and the process ends as without us.
    sigaction(SIGBUS, &previous_action, nullptr);
  } else {
    previous_action.sa_handler(signal);
  }
}

}  // namespace

void InstallBusGuard() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = OnBus;
    // NODEFER: the signal stays unblocked after the jump, so that no mask must be saved (a system
    // call) for each access.
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous_action);
  });
}

bool RunGuarded(const void* base, size_t bytes, void (*access)(void*), void* context) {
  ActiveGuard guard;
  guard.begin = reinterpret_cast<uintptr_t>(base);
  guard.end = guard.begin + bytes;
  if (sigsetjmp(guard.target, 0) != 0) {
    active_guard = nullptr;
    return false;
  }
  active_guard = &guard;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  access(context);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  active_guard = nullptr;
  return true;
}

}  // namespace gordian::collector
