// The contract of each kind of operation of NCCL: whose start a member needs before its part can
// end, which members are roots, which members connect one by one, what a member sends and
// receives, and on which arguments members must agree. One table; the analyzer, the replayer and
// the planner read it and keep no copy of any of its facts.
//
// Pure functions of their arguments. Sizes are elements of the call's datatype unless the name says
// bytes. Members are ranks of the communicator.
//
// Where the facts come from:
//  - Sizes and roots: the comments of nccl.h 2.28. A call's `count` is what one member gives to, or
//    gets from, one other: ncclAllGather's sendcount, ncclReduceScatter's recvcount.
//  - Who ends without whom (rules W1 and W1p of docs/wait-model.md): four H200, NCCL 2.28.9, the
//    programs of tests/gpu/truth. broadcast_root_first, reduce_leaf_first, gather_leaf_first,
//    scatter_root_first and send_send complete: NCCL pushes the data and goes on.
//    broadcast_receiver_first, reduce_root_first, gather_root_first, scatter_receiver_first,
//    recv_recv and the *_inversion programs hang.
//  - What buffers hold: the pushes above complete up to 64 MiB. broadcast_root_first and
//    reduce_leaf_first hang at 128 MiB, send_send with NCCL_P2P_DISABLE=1 between 1 and 64 MiB.
//  - Empty calls: count_zero_extra completes and count_zero_instead hangs, so a collective of count
//    0 launches nothing. send_zero_recv_zero hangs, so a transfer of count 0 is one like any other.
//  - What is pairwise: NCCL's ncclAlltoAll, ncclGather and ncclScatter enqueue sends and receives,
//    and connect as these do (W15).
//
// Others keep facts of their own on purpose: the emulator and the twins in tests/ so that an error
// here shows as a difference, interpose/ because a library that is loaded into a job includes
// nothing but proto/ring, and runtime/ because it is a library of its own, with its own kinds.
#ifndef GORDIAN_ANALYZER_MODEL_COLLECTIVE_H_
#define GORDIAN_ANALYZER_MODEL_COLLECTIVE_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "analyzer/model/facts/event.h"

namespace gordian::model {

constexpr bool IsCollective(Call call) { return call >= Call::kBarrier && call <= Call::kScatter; }
constexpr bool IsTransfer(Call call) { return call == Call::kSend || call == Call::kRecv; }
// RMA calls are none: they have rules of their own (W16).
constexpr bool IsOperation(Call call) { return IsCollective(call) || IsTransfer(call); }

// Beside its own start, what the done of a member's part needs.
enum class Needs : uint8_t {
  kNoOther,
  kOne,  // the start of the root, or of the transfer's other end
  kAll,  // the start of every member
};
// How many elements a member's buffer holds.
enum class Holds : uint8_t {
  kNothing,
  kCount,
  kCountOfEach,  // `count` for each member
};

// What one side of an operation does.
struct Side {
  Needs needs = Needs::kNoOther;
  Holds sent = Holds::kNothing;
  Holds received = Holds::kNothing;
};

struct Contract {
  Call call = Call::kOther;
  bool rooted = false;    // names a root, which is a side of its own
  bool reduces = false;   // names an operator
  bool pairwise = false;  // a collective that NCCL carries out as sends and receives
  Side root;              // of rooted kinds only
  Side other;             // of every other member
};

// By Call, from kBarrier on; the first row is of calls that are no operations.
inline constexpr Contract kContracts[] = {
    {},
    {.call = Call::kBarrier, .other = {Needs::kAll, Holds::kNothing, Holds::kNothing}},
    {.call = Call::kAllReduce,
     .reduces = true,
     .other = {Needs::kAll, Holds::kCount, Holds::kCount}},
    {.call = Call::kAllGather, .other = {Needs::kAll, Holds::kCount, Holds::kCountOfEach}},
    {.call = Call::kReduceScatter,
     .reduces = true,
     .other = {Needs::kAll, Holds::kCountOfEach, Holds::kCount}},
    {.call = Call::kBroadcast,
     .rooted = true,
     .root = {Needs::kNoOther, Holds::kCount, Holds::kCount},
     .other = {Needs::kOne, Holds::kNothing, Holds::kCount}},
    {.call = Call::kReduce,
     .rooted = true,
     .reduces = true,
     .root = {Needs::kAll, Holds::kCount, Holds::kCount},
     .other = {Needs::kNoOther, Holds::kCount, Holds::kNothing}},
    {.call = Call::kAllToAll,
     .pairwise = true,
     .other = {Needs::kAll, Holds::kCountOfEach, Holds::kCountOfEach}},
    {.call = Call::kGather,
     .rooted = true,
     .pairwise = true,
     .root = {Needs::kAll, Holds::kCount, Holds::kCountOfEach},
     .other = {Needs::kNoOther, Holds::kCount, Holds::kNothing}},
    {.call = Call::kScatter,
     .rooted = true,
     .pairwise = true,
     .root = {Needs::kNoOther, Holds::kCountOfEach, Holds::kCount},
     .other = {Needs::kOne, Holds::kNothing, Holds::kCount}},
    {.call = Call::kSend, .other = {Needs::kNoOther, Holds::kCount, Holds::kNothing}},
    {.call = Call::kRecv, .other = {Needs::kOne, Holds::kNothing, Holds::kCount}},
};
constexpr const Contract& ContractOf(Call call) {
  const size_t row = static_cast<size_t>(call) - static_cast<size_t>(Call::kBarrier) + 1;
  return kContracts[IsOperation(call) ? row : 0];
}
static_assert(ContractOf(Call::kAllReduce).call == Call::kAllReduce &&
              ContractOf(Call::kScatter).call == Call::kScatter &&
              ContractOf(Call::kRecv).call == Call::kRecv &&
              static_cast<size_t>(Call::kRecv) - static_cast<size_t>(Call::kBarrier) + 2 ==
                  std::size(kContracts));

constexpr bool HasRoot(Call call) { return ContractOf(call).rooted; }
constexpr bool Reduces(Call call) { return ContractOf(call).reduces; }
constexpr bool IsPairwise(Call call) { return ContractOf(call).pairwise; }

// What one member takes upon itself by one call.
struct Role {
  Call call = Call::kOther;
  int member = -1;
  int root_or_peer = -1;  // of rooted collectives and transfers; else not read
  uint64_t count = 0;
};

constexpr bool IsRoot(const Role& role) {
  return HasRoot(role.call) && role.member == role.root_or_peer;
}
constexpr const Side& SideOf(const Role& role) {
  return IsRoot(role) ? ContractOf(role.call).root : ContractOf(role.call).other;
}
// NCCL takes the call, and launches, connects and moves nothing for it.
constexpr bool IsEmpty(const Role& role) { return IsCollective(role.call) && role.count == 0; }
// Whether NCCL runs it over channels that it connects among all members at once (W15) and divides
// among the collectives of a launch.
constexpr bool UsesChannelsOfAll(const Role& role) {
  return IsCollective(role.call) && !IsPairwise(role.call) && !IsEmpty(role);
}

// Whether what a member pushes finds room before its receiver has started.
enum class Buffers : uint8_t {
  kHoldAll,  // as in NCCL for the sizes above
  kHoldNone  // then no member ends before all of them have started, nor a send before its receive
};
constexpr Needs NeedsOf(const Role& role, Buffers buffers = Buffers::kHoldAll) {
  if (IsEmpty(role)) return Needs::kNoOther;
  if (buffers == Buffers::kHoldAll) return SideOf(role).needs;
  return IsCollective(role.call) ? Needs::kAll
         : IsTransfer(role.call) ? Needs::kOne
                                 : Needs::kNoOther;
}
// True if the member's part of a collective ends only after the other member's has started.
constexpr bool NeedsStartOf(const Role& role, int other, Buffers buffers = Buffers::kHoldAll) {
  const Needs needs = NeedsOf(role, buffers);
  return needs == Needs::kAll || (needs == Needs::kOne && other == role.root_or_peer);
}

// From whom and to whom a transfer's bytes go; of collectives both are -1.
struct Ends {
  int source = -1;
  int destination = -1;
};
constexpr Ends EndsOf(const Role& role) {
  if (!IsTransfer(role.call)) return {};
  return role.call == Call::kSend ? Ends{role.member, role.root_or_peer}
                                  : Ends{role.root_or_peer, role.member};
}

// Whom the call connects with one by one, and whether to send to them; each direction is a
// connection of its own. No rank for what uses channels of all.
std::vector<std::pair<int, bool>> PeersOf(const Role& role, int nranks);

// What a call connects where that has not been done yet (W15).
struct FirstUses {
  bool collectives = false;                 // the channels of all members
  std::vector<std::pair<int, bool>> peers;  // as of PeersOf
};
FirstUses FirstUsesOf(const Role& role, int nranks);

// Bytes of one element by ncclDataType_t; 0 for types that nccl.h 2.28 does not have.
constexpr uint64_t DatatypeBytes(uint8_t datatype) {
  constexpr uint8_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return datatype < std::size(kBytes) ? kBytes[datatype] : 0;
}

constexpr uint64_t ElementsOf(Holds holds, uint64_t count, uint64_t nranks) {
  return holds == Holds::kCountOfEach ? count * nranks : holds == Holds::kCount ? count : 0;
}
// What the member's send buffer, and its receive buffer, holds. In place both are one.
constexpr uint64_t ElementsSent(const Role& role, uint64_t nranks) {
  return ElementsOf(SideOf(role).sent, role.count, nranks);
}
constexpr uint64_t ElementsReceived(const Role& role, uint64_t nranks) {
  return ElementsOf(SideOf(role).received, role.count, nranks);
}
// Elements of the largest buffer that any member passes: NCCL's benchmarks call it the size.
constexpr uint64_t LargestBuffer(Call call, uint64_t count, uint64_t nranks) {
  for (const Side& side : {ContractOf(call).root, ContractOf(call).other}) {
    if (side.sent == Holds::kCountOfEach || side.received == Holds::kCountOfEach)
      return count * nranks;
  }
  return count;
}
// What NCCL chooses its protocol and algorithm by: ncclFuncMaxSendRecvCount of its enqueue.h. What
// is pairwise is chosen for transfer by transfer.
constexpr uint64_t TunedElements(Call call, uint64_t count, uint64_t nranks) {
  return IsPairwise(call) ? count : LargestBuffer(call, count, nranks);
}

// The arguments of a member's call, as far as members compare them.
struct OpSignature {
  Call call = Call::kOther;
  uint8_t datatype = 0;
  uint8_t reduce_op = 255;
  int32_t root = -1;
  uint64_t count = 0;
};
// `arguments` has call, datatype, reduce_op, root_or_peer and count. A peer is no root.
template <typename Arguments>
OpSignature SignatureOf(const Arguments& arguments) {
  return {arguments.call, arguments.datatype, arguments.reduce_op,
          HasRoot(arguments.call) ? arguments.root_or_peer : -1, arguments.count};
}
constexpr uint64_t Bytes(const OpSignature& signature) {
  return signature.count * DatatypeBytes(signature.datatype);
}

// The arguments that all members must agree on, by the operation's own rule. Bits of MismatchBits.
enum MismatchBits : uint32_t {
  kKindDiffers = 1,
  kCountDiffers = 2,
  kTypeDiffers = 4,
  kOperatorDiffers = 8,
  kRootDiffers = 16,
};
uint32_t Difference(const OpSignature&, const OpSignature&);
uint32_t TransferDifference(const OpSignature& send, const OpSignature& receive);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_COLLECTIVE_H_
