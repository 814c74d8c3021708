#include "runtime/cuda_api/registrations.h"

#include <map>
#include <set>
#include <utility>

#include "runtime/cuda_api/handles.h"
#include "runtime/include/gordian/runtime.h"

namespace gordian::runtime::cuda {
namespace {

// How long a peer's process may take to map memory: no program is waited for.
constexpr int kMapMs = 2000;
// How long a call waits for peers to unmap memory that no operation uses, so that the memory is
// free at once. A peer may take as long as its kernels run, and these may wait for this very rank,
// so the call does not wait longer.
constexpr int kGiveUpMs = 500;

// What a communicator had enqueued at a moment.
class Usage {
 public:
  explicit Usage(std::shared_ptr<CommState> comm) : comm_(std::move(comm)) {
    const OnDevice on(comm_->process->device());
    std::set<cudaStream_t> streams;
    {
      const std::lock_guard<std::mutex> lock(comm_->mutex);
      streams = comm_->streams;
      detached_ = comm_->detached;
    }
    for (cudaStream_t stream : streams) {
      bool captured = false;
      cudaEvent_t end = nullptr;
      if (IsCaptured(stream, &captured) != cudaSuccess || captured ||
          cudaEventCreateWithFlags(&end, cudaEventDisableTiming) != cudaSuccess) {
        is_known_ = false;
        continue;
      }
      ends_.push_back(end);
      if (cudaEventRecord(end, stream) != cudaSuccess) is_known_ = false;
    }
  }
  ~Usage() {
    const OnDevice on(comm_->process->device());
    for (const cudaEvent_t end : ends_) cudaEventDestroy(end);
  }
  Usage(const Usage&) = delete;
  Usage& operator=(const Usage&) = delete;

  Exports::Over IsOver() const {
    const OnDevice on(comm_->process->device());
    if (!is_known_) return Exports::Over::kNever;
    for (const cudaEvent_t end : ends_) {
      const cudaError_t e = cudaEventQuery(end);
      if (!IsThrough(e))
        return e == cudaErrorNotReady ? Exports::Over::kNotYet : Exports::Over::kNever;
    }
    for (const auto& [sequence, operation] : detached_) {
      if (!operation.IsDone())
        return comm_->error() == grtSuccess ? Exports::Over::kNotYet : Exports::Over::kNever;
    }
    // If the communicator has failed, operations may have ended unfinished, and peers' kernels may
    // still write.
    return comm_->error() == grtSuccess ? Exports::Over::kYes : Exports::Over::kNever;
  }

 private:
  const std::shared_ptr<CommState> comm_;
  bool is_known_ = true;
  std::vector<cudaEvent_t> ends_;
  std::map<int, Detached> detached_;
};

}  // namespace

uint64_t Registrations::Add(const void* memory, uint64_t bytes,
                            std::shared_ptr<Exports::Export> as) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  const std::lock_guard<std::mutex> lock(mutex_);
  registered_[++last_] = {begin, begin + bytes, std::move(as)};
  return last_;
}

std::shared_ptr<Exports::Export> Registrations::Remove(uint64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto known = registered_.extract(number);
  return known.empty() ? nullptr : std::move(known.mapped().as);
}

std::vector<std::shared_ptr<Exports::Export>> Registrations::RemoveAll() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::shared_ptr<Exports::Export>> all;
  for (auto& [number, registered] : registered_) all.push_back(std::move(registered.as));
  registered_.clear();
  return all;
}

std::shared_ptr<Exports::Export> Registrations::Around(uintptr_t begin, uintptr_t end) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [number, registered] : registered_) {
    if (begin < registered.begin || end > registered.end) continue;
    // The program freed the memory without deregistering it, and the addresses may belong to other
    // memory now: treat it as not registered.
    if (exports_->IsStillThere(*registered.as, begin, end)) return registered.as;
  }
  return nullptr;
}

uintptr_t Registrations::Find(uintptr_t begin, uintptr_t end) {
  const std::shared_ptr<Exports::Export> around = Around(begin, end);
  return around == nullptr ? 0 : range_ + around->offset() + (begin - around->begin());
}

std::shared_ptr<void> Registrations::Hold(uintptr_t begin, uintptr_t end) {
  std::shared_ptr<Exports::Export> around = Around(begin, end);
  if (around == nullptr) return nullptr;
  auto* const held = new std::shared_ptr<Exports::Export>(std::move(around));
  return std::shared_ptr<void>(held, [exports = exports_](void* let_go) {
    delete static_cast<std::shared_ptr<Exports::Export>*>(let_go);
    exports->Look();
  });
}

void EndRegistrations(CommState* comm) {
  std::vector<std::shared_ptr<Exports::Export>> all = comm->registrations->RemoveAll();
  Exports& exports = comm->process->exports();
  for (std::shared_ptr<Exports::Export>& one : all) {
    if (comm->aborted) exports.EndWhen([] { return Exports::Over::kNever; }, std::move(one));
  }
  if (all.empty() || comm->aborted) return;
  all.clear();
  exports.Look();
  exports.AwaitSettled(kGiveUpMs);
}

}  // namespace gordian::runtime::cuda

using namespace gordian::runtime;
using namespace gordian::runtime::cuda;

grtResult_t grtCommRegister(grtComm_t comm, void* memory, size_t bytes, grtReg_t* reg) {
  if (comm == nullptr || memory == nullptr || bytes == 0 || reg == nullptr)
    return grtInvalidArgument;
  *reg = nullptr;
  return Guarded([&]() -> grtResult_t {
    const std::shared_ptr<CommState>& state = comm->comm;
    if (const grtResult_t result = MakeReady(state); result != grtSuccess) return result;
    const OnDevice on(state->process->device());
    std::shared_ptr<Exports::Export> as;
    const grtResult_t result =
        state->process->exports().Make(memory, bytes, Process::PeersOf(*state), kMapMs, &as);
    if (result != grtSuccess) return result;
    const uint64_t number = state->registrations->Add(memory, bytes, std::move(as));
    *reg = reinterpret_cast<grtReg_t>(static_cast<uintptr_t>(number));
    return grtSuccess;
  });
}

grtResult_t grtCommDeregister(grtComm_t comm, grtReg_t reg) {
  if (comm == nullptr || reg == nullptr) return grtInvalidArgument;
  return Guarded([&]() -> grtResult_t {
    CommState& state = *comm->comm;
    std::shared_ptr<Exports::Export> as =
        state.registrations->Remove(reinterpret_cast<uintptr_t>(reg));
    if (as == nullptr) return grtInvalidArgument;
    Exports& exports = state.process->exports();
    auto usage = std::make_shared<Usage>(comm->comm);
    if (usage->IsOver() != Exports::Over::kYes) {
      exports.EndWhen([usage] { return usage->IsOver(); }, std::move(as));
      return grtSuccess;
    }
    as.reset();
    exports.Look();
    exports.AwaitSettled(kGiveUpMs);
    return grtSuccess;
  });
}
