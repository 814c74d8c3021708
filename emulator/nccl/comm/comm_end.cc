// Ends communicators.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "emulator/nccl/api/error.h"
#include "emulator/nccl/comm/comm.h"
#include "emulator/nccl/operation/kernel.h"

namespace gordian::emu::nccl {
namespace {

// The members of one communicator in this process.
struct LocalMembers {
  std::vector<std::weak_ptr<Comm>> live;      // not ended yet
  std::vector<std::shared_ptr<Comm>> ending;  // destroyed before the last one
};

struct Process {
  std::mutex mutex;
  std::map<CommKey, LocalMembers> members;
  int pid = 0;
};

Process& ThisProcess() {
  static auto* process = new Process;
  return *process;
}

void End(Comm& comm) {
  comm.segment().member(comm.rank()).ended.store(1);
  comm.segment().NotifyHosts();
}

// Other processes see a process end by its closed connections.
void EndAll() {
  Process& process = ThisProcess();
  if (process.pid != getpid()) return;
  std::lock_guard lock(process.mutex);
  for (auto& [key, local] : process.members) {
    for (const auto& weak : local.live) {
      if (auto comm = weak.lock()) End(*comm);
    }
    for (const auto& comm : local.ending) End(*comm);
  }
}

// Removes `comm`. Returns true if it was the last one; `ending` then holds those that ended before.
bool TakeOut(Comm* comm, bool destroyed, std::vector<std::shared_ptr<Comm>>* ending) {
  Process& process = ThisProcess();
  std::lock_guard lock(process.mutex);
  auto at = process.members.find(comm->key());
  if (at == process.members.end()) return false;
  LocalMembers& local = at->second;
  const size_t erased =
      std::erase_if(local.live, [&](const auto& weak) { return weak.lock().get() == comm; });
  if (erased == 0) return false;
  if (destroyed) local.ending.push_back(comm->shared_from_this());
  if (!local.live.empty()) return false;
  *ending = std::move(local.ending);
  process.members.erase(at);
  return true;
}

}  // namespace

void Comm::JoinProcess() {
  Process& process = ThisProcess();
  std::lock_guard lock(process.mutex);
  if (process.pid != getpid()) {
    process.pid = getpid();
    process.members.clear();
    static const bool registered = std::atexit(EndAll) == 0;
    (void)registered;
  }
  process.members[key_].live.push_back(weak_from_this());
}

void Comm::WaitLaunched() {
  std::shared_ptr<DeviceOp> last;
  {
    std::lock_guard lock(chain_.mutex);
    last = last_;
  }
  // A communicator's operations end in order, so waiting for the last one suffices.
  if (last != nullptr) GetEngine().WaitDone({last});
  // NCCL's destruction, too, polls until every graph that holds one of its kernels is gone.
  if (segment_ != nullptr) {
    segment_->WaitHosts(
        "graphs", [&] { return graph_references_.load() == 0; }, aborted_,
        [] { return std::vector<int>(); });
  }
}

// Afterwards the other members' destruction does not wait for this one: NCCL closes its ends of the
// connections here.
ncclResult_t Comm::Finalize() {
  WaitLaunched();
  if (segment_ != nullptr) End(*this);
  return ncclSuccess;
}

ncclResult_t Comm::Destroy() {
  std::vector<std::shared_ptr<Comm>> ending;
  if (segment_ == nullptr || !TakeOut(this, /*destroyed=*/true, &ending)) return ncclSuccess;
  for (const auto& comm : ending) comm->WaitLaunched();
  for (const auto& comm : ending) End(*comm);
  // NCCL's proxies serve until the members that have connected to them have ended; nothing waits
  // for the others.
  auto connected = [&ending](int r) {
    return std::any_of(ending.begin(), ending.end(), [r](const auto& comm) {
      return comm->collectives_connected_ || comm->sends_connected_[r] ||
             comm->receives_connected_[r];
    });
  };
  auto there = [&](int r) {
    return !connected(r) || segment_->member(r).ended.load() != 0 || segment_->IsGone(r);
  };
  segment_->WaitMembers("destroy", there, cancelled_);
  return ncclSuccess;
}

void Comm::Revoke() {
  revoked_.store(true);
  Cancel();
}

void Comm::Abort() {
  aborted_.store(true);
  Cancel();
  std::vector<std::shared_ptr<Comm>> ending;
  {
    std::lock_guard lock(segment_mutex_);
    if (segment_ == nullptr) return;
  }
  TakeOut(this, /*destroyed=*/false, &ending);
  End(*this);
  for (const auto& comm : ending) End(*comm);
}

void Comm::Cancel() {
  cancelled_.store(true);
  std::shared_ptr<Segment> segment;
  {
    std::lock_guard lock(segment_mutex_);
    segment = segment_;
  }
  if (segment != nullptr) segment->NotifyHosts();
  // Ringing makes our own worker look at `cancelled` in its kernels.
  RingSelf();
}

}  // namespace gordian::emu::nccl
