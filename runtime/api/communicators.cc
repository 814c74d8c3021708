// Communicators and ports of the C API.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/api/handles.h"
#include "runtime/cpu/across/bridge.h"
#include "runtime/cpu/engine.h"
#include "runtime/cpu/futex.h"
#include "runtime/cpu/streams/stream_driver.h"
#include "runtime/include/gordian/runtime_front.h"

namespace gordian::runtime {
namespace {

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

// GRT_NODE, or the host's name.
std::string NodeName() {
  const char* given = std::getenv("GRT_NODE");
  if (given != nullptr && *given != '\0') return given;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return host;
}

// Equal on all members, and as hard to guess as the id.
uint64_t KeyOf(const grtUniqueId& id) {
  uint64_t key = 0;
  for (size_t i = 0; i < sizeof id.internal; i += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, id.internal + i, sizeof word);
    key = internal::Mix(key ^ word);
  }
  return key;
}

}  // namespace
}  // namespace gordian::runtime

using namespace gordian::runtime;

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
    net::Meeting meeting;
    const bool meets =
        net::ReadMeeting(reinterpret_cast<const unsigned char*>(id.internal), &meeting);
    const Across across = {KeyOf(id), NodeName(), &meeting, {}};
    LastErrorText().clear();
    const grtResult_t result =
        Comm::Create(NameOf(id), static_cast<uint32_t>(nranks), static_cast<uint32_t>(rank), config,
                     meets ? &across : nullptr, &made->comm, &LastErrorText());
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
      Across across;
      if (Bridge* const bridge = parent->bridge()) {
        if (!bridge->AwaitPlaces(deadline_ns)) return grtTimeout;
        const std::vector<net::Place> places = bridge->Places();
        across.key = internal::Mix(
            bridge->key() ^ internal::Mix(uint64_t{child} << 32 | static_cast<uint32_t>(color)));
        across.node = parent->node();
        for (const auto& [unused, r] : members) across.places.push_back(places[r]);
      }
      LastErrorText().clear();
      result = Comm::Create(
          parent->name() + "-s" + std::to_string(child) + "." + std::to_string(color),
          static_cast<uint32_t>(members.size()), rank, config,
          parent->bridge() != nullptr ? &across : nullptr, &made->comm, &LastErrorText());
    }
    // Each member sends its result to all others: they would wait for one that could not join.
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

grtResult_t grtCommErrorText(grtComm_t comm, char* text, size_t bytes) {
  return Guarded([&] {
    if (comm == nullptr) return CopyText(LastErrorText(), text, bytes);
    const grtResult_t error = comm->comm->error();
    std::string why = error == grtSuccess ? "" : comm->comm->ErrorText();
    if (error != grtSuccess && why.empty()) why = grtGetErrorString(error);
    return CopyText(why, text, bytes);
  });
}

grtResult_t grtCommAbort(grtComm_t comm) {
  if (comm == nullptr) return grtInvalidArgument;
  comm->comm->set_abandoned();
  comm->comm->Fail(grtAborted);
  comm->comm->Leave();
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
    comm->comm->Leave();
    delete comm;
    return grtSuccess;
  });
}

grtResult_t grtFrontFinish(grtComm_t comm) {
  if (comm == nullptr) return grtInvalidArgument;
  return Guarded([&] {
    for (const std::shared_ptr<Task>& task : comm->comm->engine()->UnfinishedOf(*comm->comm))
      Engine::Await(*task, kForever);
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
      stopped |=
          comm->comm->StoppedRanks(*task->port, task->wanted.load(std::memory_order_relaxed));
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

// Members meet as they come: there is nothing to wait for.
grtResult_t grtCommConnect(grtComm_t comm, uint64_t) {
  return comm == nullptr ? grtInvalidArgument : grtSuccess;
}
