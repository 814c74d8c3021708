// What every backend has alike: versions, words for results, ids, names of shared memory, and
// votes.
#include <sys/random.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/api/common.h"
#include "runtime/core/op.h"
#include "runtime/cpu/futex.h"
#include "runtime/cpu/shared_memory.h"
#include "runtime/include/gordian/runtime_front.h"
#include "runtime/net/bootstrap.h"

namespace gordian::runtime {
namespace {

uint64_t HashBytes(const void* bytes, size_t count, uint64_t seed) {
  uint64_t h = internal::Mix(seed + count);
  const auto* at = static_cast<const unsigned char*>(bytes);
  for (size_t i = 0; i < count; ++i) h = internal::Mix(h ^ at[i] ^ (h << 8));
  return h;
}

// What all members must agree on before a communicator is theirs.
struct Ballot {
  uint64_t yes;       // votes
  uint64_t arrived;   // members; the last one takes the name away
  uint32_t decision;  // kOpen, kYes, kNo; a futex
};
constexpr uint32_t kOpen = 0, kYes = 1, kNo = 2;

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

std::string& LastErrorText() {
  thread_local std::string text;
  return text;
}

grtResult_t CopyText(const std::string& from, char* text, size_t bytes) {
  if (text == nullptr || bytes == 0) return grtInvalidArgument;
  const size_t kept = std::min(from.size(), bytes - 1);
  std::memcpy(text, from.data(), kept);
  text[kept] = '\0';
  return grtSuccess;
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
  if (getrandom(id->internal, sizeof id->internal, 0) != sizeof id->internal) return grtSystemError;
  if (std::getenv("GRT_NODE") == nullptr) return grtSuccess;
  return Guarded([&] {
    const char* address = std::getenv("GRT_NET_ADDRESS");
    net::Meeting meeting;
    if (!net::MakeMeeting(address != nullptr ? address : "", &meeting, &LastErrorText())) {
      return grtSystemError;
    }
    net::WriteMeeting(meeting, reinterpret_cast<unsigned char*>(id->internal));
    return grtSuccess;
  });
}

grtResult_t grtAgree(grtUniqueId id, int nranks, int votes, int wanted, uint64_t timeout_ns,
                     int* agreed) {
  if (nranks < 1 || votes < 1 || votes > nranks || agreed == nullptr) return grtInvalidArgument;
  *agreed = 0;
  return Guarded([&] {
    const std::shared_ptr<SharedMemory> memory = SharedMemory::Open(NameOf(id) + "-a", 4096);
    // Without it no rank of this process votes, so the others' answer is no as well.
    if (memory == nullptr || !memory->Reserve(0, sizeof(Ballot))) return grtSystemError;
    auto* ballot = static_cast<Ballot*>(memory->base());
    const auto own = static_cast<uint64_t>(votes), all = static_cast<uint64_t>(nranks);
    std::atomic_ref<uint32_t> decision(ballot->decision);
    const auto decide = [&](uint32_t what) {
      uint32_t open = kOpen;
      decision.compare_exchange_strong(open, what);
      FutexWakeAll(reinterpret_cast<std::atomic<uint32_t>*>(&ballot->decision));
    };
    if (wanted == 0) {
      decide(kNo);
    } else if (std::atomic_ref<uint64_t>(ballot->yes).fetch_add(own) + own == all) {
      decide(kYes);
    }
    if (std::atomic_ref<uint64_t>(ballot->arrived).fetch_add(own) + own == all) {
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
