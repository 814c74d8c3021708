// What the route of collectives and recovery share: the runtime's functions, and the communicators
// that have a counterpart there.
#ifndef GORDIAN_INTERPOSE_ROUTE_ROUTED_COMM_H_
#define GORDIAN_INTERPOSE_ROUTE_ROUTED_COMM_H_

#include <nccl.h>
#include <stdint.h>

#include <atomic>
#include <type_traits>

#include "interpose/entry/real_symbols.h"
#include "proto/ring/calls.h"
#include "proto/ring/layout.h"
#include "runtime/include/gordian/runtime_front.h"

namespace gordian::interpose {

// The runtime's functions, by name. (clang-format finds another form of this each time.)
// clang-format off
#define GORDIAN_RUNTIME_FUNCTIONS(F) \
  F(grtUseCudaStreams) F(grtAgree) F(grtChildId) F(grtCommInitRankConfig) F(grtCommConnect) \
  F(grtCommDestroy) F(grtStreamGone) F(grtCanCapture) F(grtCommAbort) F(grtCommGetAsyncError) \
  F(grtSubmit) F(grtGroupStart) F(grtGroupEnd) F(grtCommRegister) F(grtCommDeregister) \
  F(grtGetUniqueId) F(grtGetStats) F(grtFrontEarly) F(grtFrontFinish) F(grtStreamExclusive) \
  F(grtStreamForeign) F(grtStreamForeignAll) F(grtFrontRecording) F(grtFrontRecorded) \
  F(grtFrontAwaiting) F(grtFrontAwaited) F(grtFrontEventShared) F(grtFrontUnseenRecords) \
  F(grtEventForgotten) F(grtOpQuery) F(grtOpFree)
// clang-format on
struct RuntimeFunctions {
#define GORDIAN_MEMBER(name) decltype(&::name) name;
  GORDIAN_RUNTIME_FUNCTIONS(GORDIAN_MEMBER)
#undef GORDIAN_MEMBER
};
extern RuntimeFunctions g_runtime;
extern grtCudaFunctions_t g_cuda;

struct UnitTable;  // recovery.cc

// Who carries out the operations of a communicator of an armed process.
enum class Carrier : uint32_t {
  kNccl,
  kPreparing,   // not decided: calls wait
  kRecovering,  // the runtime, once their stream has come to them
  kRuntime
};

struct RoutedComm {
  std::atomic<uint64_t> handle;  // 0: free
  grtComm_t comm;                // null: its members have said no, or it was revoked
  bool agreed;                   // its members have said yes
  bool named;                    // asked for by its name, or all are
  grtUniqueId id;
  std::atomic<uint32_t> children, shrunk;
  // An armed process uses these (recovery.h).
  std::atomic<Carrier> carrier;
  std::atomic<uint32_t> revoking;  // 1: a helper thread is in ncclCommRevoke
  UnitTable* units;                // null: none was to be had; stays with the slot
};

inline bool IsBeingRecovered(const RoutedComm& routed) {
  const Carrier carrier = routed.carrier.load();
  return carrier == Carrier::kPreparing || carrier == Carrier::kRecovering;
}

inline constexpr uint32_t kMostComms = 1024;
extern RoutedComm g_comms[kMostComms];
// The first for which `holds(comm)` is true; null: none.
template <typename Holds>
RoutedComm* FindRoutedIf(const Holds& holds) {
  for (RoutedComm& routed : g_comms) {
    if (routed.handle.load(std::memory_order_acquire) != 0 && holds(routed)) return &routed;
  }
  return nullptr;
}

ncclResult_t ToNccl(grtResult_t result);
grtKind_t KindOf(ring::CallId call);
// An operation's name as the runtime keeps it.
grtFrontName_t NameOf(const ring::EarlyOperation& named);
// For the person who runs the job: it does not do what was asked for.
void Say(const char* what, const char* why);

// NCCL's own function behind a row.
bool LookForCollectives();
template <typename Function>
Function RealNccl(ring::CallId call) {
  return reinterpret_cast<Function>(
      FindRealSymbol(call, reinterpret_cast<const void*>(&LookForCollectives)));
}

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_ROUTE_ROUTED_COMM_H_
