// Communicators and ports of the C API.
#include <sys/random.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <tuple>

#include "runtime/api/handles.h"
#include "runtime/cpu/engine.h"
#include "runtime/cpu/futex.h"
#include "runtime/cpu/stream_driver.h"
#include "runtime/include/gordian/runtime_front.h"

namespace gordian::runtime {
namespace {

uint64_t HashBytes(const void* bytes, size_t count, uint64_t seed) {
  uint64_t h = internal::Mix(seed + count);
  const auto* at = static_cast<const unsigned char*>(bytes);
  for (size_t i = 0; i < count; ++i) h = internal::Mix(h ^ at[i] ^ (h << 8));
  return h;
}

// A copy with what was left out filled in. False: it cannot be read.
bool ReadConfig(const grtConfig_t* given, const grtConfig_t& defaults, grtConfig_t* config) {
  *config = defaults;
  if (given == nullptr) return true;
  if (!HasHead(given)) return false;
  *config = *given;
  return true;
}

// What all members must agree on before a communicator is theirs.
struct Ballot {
  uint64_t yes;       // votes
  uint64_t arrived;   // members; the last one takes the name away
  uint32_t decision;  // kOpen, kYes, kNo; a futex
};
constexpr uint32_t kOpen = 0, kYes = 1, kNo = 2;

// `words` words of each member to all. After a timeout the communicator has failed.
grtResult_t Exchange(grtComm_t comm, const void* in, void* out, size_t words, int64_t deadline_ns) {
  grtOpDesc_t d = GRT_OP_DESC_INITIALIZER;
  d.kind = grtKindAllGather;
  d.in = in;
  d.out = out;
  d.count = words;
  d.type = grtInt32;
  d.order = grtOrderDetached;
  d.comm = comm;
  grtOp_t op = nullptr;
  const grtResult_t result = grtSubmit(&d, nullptr, &op);
  if (result != grtSuccess) return result;
  const std::shared_ptr<Task> task = op->task;
  grtOpFree(op);
  if (Engine::Await(*task, deadline_ns)) return task->result;
  // The buffers are about to go.
  task->comm->Fail(grtTimeout);
  Engine::Await(*task, kForever);
  return grtTimeout;
}

}  // namespace

std::string NameOf(const grtUniqueId& id) {
  // GRT_SESSION: what `gordian run` clears away after its job.
  const char* session = std::getenv("GRT_SESSION");
  std::string prefix = "gordian-rt-";
  for (const char* c = session; c != nullptr && *c != '\0' && prefix.size() < 64; ++c) {
    if (std::isalnum(static_cast<unsigned char>(*c)) != 0) prefix += *c;
  }
  char text[40];
  std::snprintf(text, sizeof text, "-%016llx%016llx",
                static_cast<unsigned long long>(HashBytes(&id, sizeof id, 1)),
                static_cast<unsigned long long>(HashBytes(&id, sizeof id, 2)));
  return prefix + text;
}

}  // namespace gordian::runtime

using namespace gordian::runtime;

grtResult_t grtGetVersion(int* version) {
  if (version == nullptr) return grtInvalidArgument;
  *version = GRT_VERSION;
  return grtSuccess;
}

const char* grtGetErrorString(grtResult_t result) {
  switch (result) {
    case grtSuccess:
      return "no error";
    case grtUnhandledCudaError:
      return "a CUDA call failed";
    case grtSystemError:
      return "memory, shared memory or threads are not to be had";
    case grtInternalError:
      return "shared state that cannot be";
    case grtInvalidArgument:
      return "an argument is wrong";
    case grtInvalidUsage:
      return "a call at the wrong time, or members that disagree";
    case grtRemoteError:
      return "a member failed";
    case grtInProgress:
      return "not done yet";
    case grtTimeout:
      return "the time for the call is up";
    case grtMismatch:
      return "members called different operations";
    case grtAborted:
      return "a member has aborted the communicator";
    case grtPeerDead:
      return "the process of a member has ended";
    case grtOutOfPorts:
      return "no port is left";
    case grtNotSupported:
      return "not supported by this backend";
  }
  return "unknown result";
}

grtResult_t grtGetUniqueId(grtUniqueId* id) {
  if (id == nullptr) return grtInvalidArgument;
  return getrandom(id->internal, sizeof id->internal, 0) == sizeof id->internal ? grtSuccess
                                                                                : grtSystemError;
}

grtResult_t grtCommInitRankConfig(grtComm_t* comm, int nranks, grtUniqueId id, int rank,
                                  const grtConfig_t* given) {
  if (comm == nullptr || nranks < 1 || rank < 0 || rank >= nranks ||
      nranks > static_cast<int>(kMostMembers)) {
    return grtInvalidArgument;
  }
  return Guarded([&] {
    grtConfig_t config;
    if (!ReadConfig(given, GRT_CONFIG_INITIALIZER, &config)) return grtInvalidArgument;
    if (config.device < 0) config.device = TheDriver().CurrentDevice();
    auto made = std::make_unique<grtCommOpaque>();
    const grtResult_t result =
        Comm::Create(NameOf(id), static_cast<uint32_t>(nranks), static_cast<uint32_t>(rank), config,
                     &made->comm);
    if (result == grtSuccess) *comm = made.release();
    return result;
  });
}

grtResult_t grtCommSplit(grtComm_t comm, int color, int key, grtComm_t* out,
                         const grtConfig_t* given, uint64_t timeout_ns) {
  if (comm == nullptr || out == nullptr) return grtInvalidArgument;
  *out = nullptr;
  return Guarded([&]() -> grtResult_t {
    const std::shared_ptr<Comm> parent = comm->comm;
    grtConfig_t config;
    if (!ReadConfig(given, parent->config(), &config)) return grtInvalidArgument;
    if (config.device < 0) config.device = parent->config().device;
    struct Choice {
      int32_t color, key;
    };
    const Choice own = {color, key};
    std::vector<Choice> all(parent->ranks());
    const int64_t deadline_ns = DeadlineIn(timeout_ns);
    grtResult_t result = Exchange(comm, &own, all.data(), 2, deadline_ns);
    if (result != grtSuccess) return result;
    const uint32_t child = parent->NextChild();
    std::vector<std::pair<int32_t, uint32_t>> members;  // (key, rank)
    for (uint32_t r = 0; r < parent->ranks(); ++r) {
      if (all[r].color == color) members.emplace_back(all[r].key, r);
    }
    std::sort(members.begin(), members.end());
    auto made = std::make_unique<grtCommOpaque>();
    if (color >= 0) {
      uint32_t rank = 0;
      while (members[rank].second != parent->rank()) ++rank;
      result = Comm::Create(
          parent->name() + "-s" + std::to_string(child) + "." + std::to_string(color),
          static_cast<uint32_t>(members.size()), rank, config, &made->comm);
    }
    // A member that could not is told to the others, who would wait for it.
    const auto created = static_cast<int32_t>(result);
    std::vector<int32_t> results(parent->ranks());
    const grtResult_t exchanged = Exchange(comm, &created, results.data(), 1, deadline_ns);
    if (result != grtSuccess) return result;
    if (exchanged != grtSuccess) return exchanged;
    if (color < 0) return grtSuccess;
    for (const auto& [unused, r] : members) {
      if (results[r] != grtSuccess) return grtRemoteError;
    }
    *out = made.release();
    return grtSuccess;
  });
}

grtResult_t grtCommCount(grtComm_t comm, int* count) {
  if (comm == nullptr || count == nullptr) return grtInvalidArgument;
  *count = static_cast<int>(comm->comm->ranks());
  return grtSuccess;
}

grtResult_t grtCommUserRank(grtComm_t comm, int* rank) {
  if (comm == nullptr || rank == nullptr) return grtInvalidArgument;
  *rank = static_cast<int>(comm->comm->rank());
  return grtSuccess;
}

grtResult_t grtCommGetAsyncError(grtComm_t comm, grtResult_t* error) {
  if (comm == nullptr || error == nullptr) return grtInvalidArgument;
  *error = comm->comm->error();
  return grtSuccess;
}

grtResult_t grtCommAbort(grtComm_t comm) {
  if (comm == nullptr) return grtInvalidArgument;
  comm->comm->set_abandoned();
  comm->comm->Fail(grtAborted);
  delete comm;
  return grtSuccess;
}

grtResult_t grtCommDestroy(grtComm_t comm, uint64_t timeout_ns) {
  if (comm == nullptr) return grtInvalidArgument;
  return Guarded([&] {
    const int64_t deadline_ns = DeadlineIn(timeout_ns);
    Engine* engine = comm->comm->engine();
    for (const std::shared_ptr<Task>& task : engine->UnfinishedOf(*comm->comm)) {
      if (!Engine::Await(*task, deadline_ns)) return grtTimeout;
    }
    delete comm;
    return grtSuccess;
  });
}

grtResult_t grtPortOpen(grtComm_t comm, uint32_t tag, const void*, grtPort_t* port) {
  if (comm == nullptr || port == nullptr || tag == 0) return grtInvalidArgument;
  return Guarded([&] {
    auto made = std::make_unique<grtPortOpaque>();
    made->comm = comm->comm;
    const grtResult_t result = comm->comm->OpenPort(tag, &made->port);
    if (result != grtSuccess) return result;
    *port = made.get();
    comm->ports.push_back(std::move(made));
    return grtSuccess;
  });
}

grtResult_t grtMemAlloc(void** memory, size_t bytes) {
  if (memory == nullptr) return grtInvalidArgument;
  constexpr size_t kAlign = 4096;
  *memory = std::aligned_alloc(kAlign, (bytes + kAlign - 1) / kAlign * kAlign);
  return *memory != nullptr || bytes == 0 ? grtSuccess : grtSystemError;
}

grtResult_t grtMemFree(void* memory) {
  std::free(memory);
  return grtSuccess;
}

grtResult_t grtCommRegister(grtComm_t, void*, size_t, grtReg_t*) { return grtNotSupported; }
grtResult_t grtCommDeregister(grtComm_t, grtReg_t) { return grtNotSupported; }

grtResult_t grtGetStats(grtComm_t comm, grtStats_t* stats) {
  if (comm == nullptr || !HasHead(stats)) return grtInvalidArgument;
  return Guarded([&] {
    const Statistics& s = comm->comm->statistics();
    uint64_t stopped = 0;
    for (const std::shared_ptr<Task>& task : comm->comm->engine()->UnfinishedOf(*comm->comm)) {
      stopped |= comm->comm->StoppedRanks(*task->port, task->wanted.load(std::memory_order_relaxed));
    }
    stats->stopped_ranks = stopped;
    stats->operations = s.operations.load();
    stats->steps = s.steps.load();
    stats->preemptions = s.preemptions.load();
    stats->helped = s.helped.load();
    stats->renamed = s.renamed.load();
    stats->probes = s.probes.load();
    stats->sleeps = s.sleeps.load();
    stats->mismatches = s.mismatches.load();
    stats->bytes = s.bytes.load();
    return grtSuccess;
  });
}

grtResult_t grtAgree(grtUniqueId id, int nranks, int, int wanted, uint64_t timeout_ns, int* agreed) {
  if (nranks < 1 || agreed == nullptr) return grtInvalidArgument;
  *agreed = 0;
  return Guarded([&] {
    const std::shared_ptr<SharedMemory> memory = SharedMemory::Open(NameOf(id) + "-a", 4096);
    // Without it nobody of this process votes, so that the others' answer is no as well.
    if (memory == nullptr || !memory->Reserve(0, sizeof(Ballot))) return grtSystemError;
    auto* ballot = static_cast<Ballot*>(memory->base());
    std::atomic_ref<uint32_t> decision(ballot->decision);
    const auto decide = [&](uint32_t what) {
      uint32_t open = kOpen;
      decision.compare_exchange_strong(open, what);
      FutexWakeAll(reinterpret_cast<std::atomic<uint32_t>*>(&ballot->decision));
    };
    if (wanted == 0) {
      decide(kNo);
    } else if (std::atomic_ref<uint64_t>(ballot->yes).fetch_add(1) + 1 ==
               static_cast<uint64_t>(nranks)) {
      decide(kYes);
    }
    if (std::atomic_ref<uint64_t>(ballot->arrived).fetch_add(1) + 1 == static_cast<uint64_t>(nranks)) {
      memory->Unlink();
    }
    const int64_t deadline_ns = DeadlineIn(timeout_ns);
    while (decision.load() == kOpen) {
      if (NowNs() >= deadline_ns) decide(kNo);
      FutexWait(reinterpret_cast<std::atomic<uint32_t>*>(&ballot->decision), kOpen, deadline_ns);
    }
    *agreed = decision.load() == kYes ? 1 : 0;
    return grtSuccess;
  });
}

grtResult_t grtChildId(grtUniqueId parent, uint32_t number, int32_t color, grtUniqueId* id) {
  if (id == nullptr) return grtInvalidArgument;
  for (size_t i = 0; i < sizeof id->internal; i += sizeof(uint64_t)) {
    const uint64_t word = HashBytes(&parent, sizeof parent,
                                    i ^ (uint64_t{number} << 32) ^ static_cast<uint32_t>(color));
    std::memcpy(id->internal + i, &word, sizeof word);
  }
  return grtSuccess;
}
