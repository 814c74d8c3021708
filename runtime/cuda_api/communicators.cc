// Communicators and memory of the C API, over GPUs.
#include <time.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "common/status.h"
#include "runtime/cpu/futex.h"
#include "runtime/cuda_api/handles.h"
#include "runtime/include/gordian/runtime_front.h"

namespace gordian::runtime::cuda {
namespace {

// How long a first operation waits for members that have not made their communicator yet.
constexpr uint64_t kMembersNs = 60'000'000'000;

grtResult_t CurrentDevice(int* device) {
  return cudaGetDevice(device) == cudaSuccess ? grtSuccess : grtUnhandledCudaError;
}

grtResult_t Make(const std::string& name, uint32_t ranks, uint32_t rank, const grtConfig_t& config,
                 grtComm_t* out) {
  if (ranks > kMaxRanks) return grtNotSupported;
  Process* process = nullptr;
  if (const grtResult_t result = Process::Of(config.device, config, &process); result != grtSuccess)
    return result;
  auto made = std::make_unique<grtCommOpaque>();
  made->comm = std::make_shared<CommState>();
  CommState& comm = *made->comm;
  comm.process = process;
  comm.name = name;
  comm.ranks = ranks;
  comm.rank = rank;
  comm.config = config;
  comm.registrations = std::make_unique<Registrations>(&process->exports(), process->range());
  const grtResult_t result = process->Enter(made->comm);
  if (result == grtSuccess) *out = made.release();
  return result;
}

// Pauses between two looks at something that does not announce its end; longer each time.
void Pause(int64_t* ns) {
  const timespec pause{0, static_cast<long>(*ns)};
  nanosleep(&pause, nullptr);
  *ns = std::min<int64_t>(*ns * 2, 1'000'000);
}

std::vector<std::shared_ptr<CommState>> WithPorts(const std::shared_ptr<CommState>& comm) {
  const std::lock_guard<std::mutex> lock(comm->mutex);
  std::vector<std::shared_ptr<CommState>> all = {comm};
  for (const auto& [tag, port] : comm->ports) all.push_back(port);
  return all;
}

// The communicator's and its ports' handles end. Ports know their communicator, as operations do,
// and so it must not know them.
void End(grtComm_t comm) {
  for (const std::shared_ptr<CommState>& each : WithPorts(comm->comm)) each->process->Leave(each);
  {
    const std::lock_guard<std::mutex> lock(comm->comm->mutex);
    comm->comm->ports.clear();
  }
  delete comm;
}

// Waits until this rank's own operations are over.
grtResult_t AwaitOver(CommState* comm, int64_t deadline_ns) {
  CommState& state = *comm;
  std::set<cudaStream_t> streams;
  std::map<int, Detached> detached;
  {
    const std::lock_guard<std::mutex> lock(state.mutex);
    streams = state.streams;
    detached = state.detached;
  }
  // What was enqueued on its streams until now; its own operations among them.
  std::vector<cudaEvent_t> ends;
  grtResult_t result = grtSuccess;
  for (cudaStream_t stream : streams) {
    bool captured = false;
    if (IsCaptured(stream, &captured) != cudaSuccess || captured) {
      state.aborted = true;  // it cannot be asked when its operations end
      continue;
    }
    cudaEvent_t end = nullptr;
    if (cudaEventCreateWithFlags(&end, cudaEventDisableTiming) != cudaSuccess)
      result = grtUnhandledCudaError;
    if (end != nullptr) ends.push_back(end);
    if (end != nullptr && cudaEventRecord(end, stream) != cudaSuccess)
      result = grtUnhandledCudaError;
  }
  int64_t pause_ns = 2000;
  for (const cudaEvent_t end : ends) {
    while (result == grtSuccess) {
      const cudaError_t e = cudaEventQuery(end);
      if (e == cudaSuccess) break;
      if (e != cudaErrorNotReady) {
        result = grtUnhandledCudaError;
      } else if (NowNs() >= deadline_ns) {
        result = grtTimeout;
      } else {
        Pause(&pause_ns);
      }
    }
  }
  for (const cudaEvent_t end : ends) cudaEventDestroy(end);
  if (result != grtSuccess) return result;
  // And the launches of graphs so far.
  const Communicator* communicator = state.ready.load(std::memory_order_acquire);
  for (; communicator != nullptr && !communicator->IsReplayed(); Pause(&pause_ns)) {
    if (NowNs() >= deadline_ns) return grtTimeout;
  }
  for (const auto& [sequence, operation] : detached) {
    const gordian::Status done =
        operation.Wait(static_cast<uint64_t>(std::max<int64_t>(deadline_ns - NowNs(), 0)));
    if (done.code() == gordian::StatusCode::kDeadline) return grtTimeout;
    if (!done.ok()) state.aborted = true;  // its end cannot be known
  }
  return grtSuccess;
}

}  // namespace

grtResult_t MakeReady(const std::shared_ptr<CommState>& comm) {
  if (const grtResult_t error = comm->error(); error != grtSuccess) return error;
  if (comm->ready.load(std::memory_order_acquire) != nullptr) return grtSuccess;
  return Process::Connect(comm, DeadlineIn(kMembersNs));
}

}  // namespace gordian::runtime::cuda

using namespace gordian::runtime;
using namespace gordian::runtime::cuda;

grtResult_t grtCommInitRankConfig(grtComm_t* comm, int nranks, grtUniqueId id, int rank,
                                  const grtConfig_t* given) {
  if (comm == nullptr || nranks < 1 || rank < 0 || rank >= nranks) return grtInvalidArgument;
  return Guarded([&] {
    grtConfig_t config;
    if (!ReadConfig(given, GRT_CONFIG_INITIALIZER, &config)) return grtInvalidArgument;
    if (config.device < 0) {
      if (const grtResult_t result = CurrentDevice(&config.device); result != grtSuccess)
        return result;
    }
    return Make(NameOf(id), static_cast<uint32_t>(nranks), static_cast<uint32_t>(rank), config,
                comm);
  });
}

// Stalled kernels decide which operations they help; the host does not ask them.
grtResult_t grtFrontEarly(grtFrontName_t*, uint32_t, uint32_t*) { return grtNotSupported; }

grtResult_t grtFrontFinish(grtComm_t comm) {
  if (comm == nullptr) return grtInvalidArgument;
  return Guarded([&]() -> grtResult_t {
    const OnDevice on(comm->comm->process->device());
    for (const std::shared_ptr<CommState>& each : WithPorts(comm->comm)) {
      if (const grtResult_t result = AwaitOver(each.get(), INT64_MAX); result != grtSuccess)
        return result;
    }
    return grtSuccess;
  });
}

grtResult_t grtCommConnect(grtComm_t comm, uint64_t timeout_ns) {
  if (comm == nullptr) return grtInvalidArgument;
  return Guarded([&] { return Process::Connect(comm->comm, DeadlineIn(timeout_ns)); });
}

grtResult_t grtCommSplit(grtComm_t comm, int color, int key, grtComm_t* out,
                         const grtConfig_t* given, uint64_t timeout_ns) {
  if (comm == nullptr || out == nullptr) return grtInvalidArgument;
  *out = nullptr;
  return Guarded([&]() -> grtResult_t {
    CommState& parent = *comm->comm;
    if (const grtResult_t error = parent.error(); error != grtSuccess) return error;
    grtConfig_t config;
    if (!ReadConfig(given, parent.config, &config)) return grtInvalidArgument;
    if (config.device < 0) config.device = parent.config.device;
    const std::string child = parent.name + "-s" + std::to_string(parent.children.fetch_add(1) + 1);
    std::vector<uint64_t> all;
    const uint64_t own = uint64_t{static_cast<uint32_t>(color)} << 32 | static_cast<uint32_t>(key);
    const grtResult_t result =
        Exchange(child, parent.ranks, parent.rank, own, DeadlineIn(timeout_ns), &all);
    if (result != grtSuccess) {
      parent.Abort();  // members may differ about whether there is a child
      return result;
    }
    if (color < 0) return grtSuccess;
    std::vector<std::pair<int32_t, uint32_t>> members;  // (key, rank)
    for (uint32_t r = 0; r < parent.ranks; ++r) {
      if (static_cast<int32_t>(all[r] >> 32) == color)
        members.emplace_back(static_cast<int32_t>(all[r]), r);
    }
    std::sort(members.begin(), members.end());
    uint32_t rank = 0;
    while (members[rank].second != parent.rank) ++rank;
    return Make(child + "." + std::to_string(color), static_cast<uint32_t>(members.size()), rank,
                config, out);
  });
}

grtResult_t grtCommCount(grtComm_t comm, int* count) {
  if (comm == nullptr || count == nullptr) return grtInvalidArgument;
  *count = static_cast<int>(comm->comm->ranks);
  return grtSuccess;
}

grtResult_t grtCommUserRank(grtComm_t comm, int* rank) {
  if (comm == nullptr || rank == nullptr) return grtInvalidArgument;
  *rank = static_cast<int>(comm->comm->rank);
  return grtSuccess;
}

grtResult_t grtCommGetAsyncError(grtComm_t comm, grtResult_t* error) {
  if (comm == nullptr || error == nullptr) return grtInvalidArgument;
  *error = comm->comm->error();
  return grtSuccess;
}

grtResult_t grtCommAbort(grtComm_t comm) {
  if (comm == nullptr) return grtInvalidArgument;
  return Guarded([&] {
    const OnDevice on(comm->comm->process->device());
    comm->comm->Abort();
    for (const std::shared_ptr<CommState>& each : WithPorts(comm->comm)) each->aborted = true;
    EndRegistrations(comm->comm.get());
    End(comm);
    return grtSuccess;
  });
}

grtResult_t grtCommDestroy(grtComm_t comm, uint64_t timeout_ns) {
  if (comm == nullptr) return grtInvalidArgument;
  return Guarded([&]() -> grtResult_t {
    const int64_t deadline_ns = DeadlineIn(timeout_ns);
    const OnDevice on(comm->comm->process->device());
    const std::vector<std::shared_ptr<CommState>> all = WithPorts(comm->comm);
    for (const std::shared_ptr<CommState>& each : all) {
      if (const grtResult_t result = AwaitOver(each.get(), deadline_ns); result != grtSuccess)
        return result;
    }
    for (const std::shared_ptr<CommState>& each : all) {
      if (each->error() != grtSuccess) each->aborted = true;
    }
    EndRegistrations(comm->comm.get());
    End(comm);
    return grtSuccess;
  });
}

grtResult_t grtPortOpen(grtComm_t comm, uint32_t tag, const void*, grtPort_t* port) {
  if (comm == nullptr || port == nullptr || tag == 0) return grtInvalidArgument;
  return Guarded([&]() -> grtResult_t {
    const std::shared_ptr<CommState>& of = comm->comm;
    if (const grtResult_t error = of->error(); error != grtSuccess) return error;
    auto made = std::make_unique<grtPortOpaque>();
    made->comm = std::make_shared<CommState>();
    CommState& state = *made->comm;
    state.process = of->process;
    state.name = of->name + "-t" + std::to_string(tag);
    state.ranks = of->ranks;
    state.rank = of->rank;
    state.config = of->config;
    state.of_port = of;
    const std::lock_guard<std::mutex> lock(of->mutex);
    if (of->ports.contains(tag)) return grtInvalidUsage;
    if (!of->meeting->TakePort(tag)) return grtOutOfPorts;
    if (const grtResult_t result = of->process->Enter(made->comm); result != grtSuccess) {
      of->Abort();  // the others would wait for this member there
      return result;
    }
    of->ports[tag] = made->comm;
    *port = made.get();
    comm->ports.push_back(std::move(made));
    return grtSuccess;
  });
}

grtResult_t grtMemAlloc(void** memory, size_t bytes) {
  if (memory == nullptr) return grtInvalidArgument;
  return Guarded([&] {
    int device = 0;
    if (const grtResult_t result = CurrentDevice(&device); result != grtSuccess) return result;
    const grtConfig_t config = GRT_CONFIG_INITIALIZER;
    Process* process = nullptr;
    if (const grtResult_t result = Process::Of(device, config, &process); result != grtSuccess)
      return result;
    return process->Allocate(memory, bytes);
  });
}

grtResult_t grtCommErrorText(grtComm_t comm, char* text, size_t bytes) {
  if (comm == nullptr) return CopyText(LastErrorText(), text, bytes);
  grtResult_t error = grtSuccess;
  if (const grtResult_t result = grtCommGetAsyncError(comm, &error); result != grtSuccess) {
    return result;
  }
  return Guarded(
      [&] { return CopyText(error == grtSuccess ? "" : grtGetErrorString(error), text, bytes); });
}

grtResult_t grtMemFree(void* memory) {
  if (memory == nullptr) return grtSuccess;
  return Guarded([&] {
    const std::vector<Process*> all = Process::All();
    for (Process* process : all) process->domain().Free(memory);  // whosever it is
    return all.empty() ? grtInvalidUsage : grtSuccess;
  });
}

grtResult_t grtGetStats(grtComm_t comm, grtStats_t* stats) {
  if (comm == nullptr || !HasHead(stats)) return grtInvalidArgument;
  return Guarded([&] {
    Process* process = comm->comm->process;
    const OnDevice on(process->device());
    stats->operations = 0;
    for (const std::shared_ptr<CommState>& each : WithPorts(comm->comm))
      stats->operations += each->operations.load();
    // Of the whole device: kernels do not tell communicators apart. In channels, not in operations.
    HelpCounts counts;
    if (!process->domain().Helped(&counts).ok()) return grtUnhandledCudaError;
    stats->helped = counts.helped;
    const Communicator* ready = comm->comm->ready.load(std::memory_order_acquire);
    stats->direct = ready != nullptr ? ready->direct() : 0;
    stats->mismatches = comm->comm->error() == grtMismatch ? 1 : 0;
    if (Worker* worker = process->domain().worker()) {
      const Worker::Stats of = worker->stats();
      stats->quits = of.instances;
      stats->residency_ns = of.resident_ns;
      stats->switches = of.switches;
    }
    return grtSuccess;
  });
}

grtResult_t grtUseCudaStreams(const grtCudaFunctions_t* functions) {
  return functions == nullptr || functions->size < sizeof *functions ? grtInvalidArgument
                                                                     : grtSuccess;
}
