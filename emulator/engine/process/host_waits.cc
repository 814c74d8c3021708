#include "emulator/engine/process/host_waits.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "emulator/engine/engine_impl.h"
#include "emulator/engine/process/futex.h"

namespace gordian::emu {
namespace {

thread_local const char* wait_name = nullptr;

}  // namespace

thread_local const char* current_call = nullptr;

HostWaits& HostWaits::Get() {
  static HostWaits* const waits = new HostWaits;
  return *waits;
}

void HostWaits::Begin(HostWait* wait) {
  if (!enabled()) return;
  wait->thread = static_cast<int>(syscall(SYS_gettid));
  wait->call = current_call;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    waits_.push_back(wait);
  }
  EngineImpl::Get().NoteActivity();
  EngineImpl::Get().PokeMonitor();
}

void HostWaits::End(HostWait* wait) {
  if (!enabled()) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    waits_.erase(std::remove(waits_.begin(), waits_.end(), wait), waits_.end());
  }
  EngineImpl::Get().NoteActivity();
}

bool HostWaits::AllAsleep() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return std::all_of(waits_.begin(), waits_.end(),
                     [](const HostWait* wait) { return wait->word->load() == wait->seen.load(); });
}

bool HostWaits::WakeTheChanged() const {
  std::lock_guard<std::mutex> lock(mutex_);
  bool any = false;
  for (const HostWait* wait : waits_) {
    if (wait->word->load() == wait->seen.load()) continue;
    FutexWakeAll(wait->word);
    any = true;
  }
  return any;
}

WaitName::WaitName(const char* name) : outermost_(wait_name == nullptr) {
  if (outermost_) wait_name = name;
}
WaitName::~WaitName() {
  if (outermost_) wait_name = nullptr;
}
const char* WaitName::Current() { return wait_name == nullptr ? "work" : wait_name; }

}  // namespace gordian::emu
