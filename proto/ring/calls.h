// CallId: the number of a row of proto/ring/hooked_calls.def; CallInfo: what the row says of its
// call. The shim, the collector, the analyzer, `gordian hooks` and the tests take what a call means
// from here, and never from its name.
//
// GORDIAN_HOOK(library, name, effect, rules, result, parameters, arguments)
//   library     nccl | cudart | cuda
//   effect      one of the functions of ring::effects below, and any traits: Work(kKernels) |
//   kLaunch rules       wait-model rules that read the call, "-" for none result, parameters,
//   arguments
//               of the function, in C; the arguments are the parameters' names
#ifndef GORDIAN_PROTO_RING_CALLS_H_
#define GORDIAN_PROTO_RING_CALLS_H_

#include <stdint.h>

#include "proto/ring/meaning.h"
#include "proto/ring/record.h"

namespace gordian::ring {

enum CallId : uint16_t {
  kCallNone = 0,
#define GORDIAN_HOOK(library, name, effect, rules, result, parameters, arguments) kCall_##name,
#include "proto/ring/hooked_calls.def"
#undef GORDIAN_HOOK
  kCallCount,
};
// Calls of torch.distributed, which Python makes and no symbol stands for (torch_calls.def). Their
// numbers follow those of the table.
enum TorchCallId : uint16_t {
  kBeforeTorchCalls = kCallCount - 1,
#define GORDIAN_TORCH_CALL(name, effect, rules) kTorchCall_##name,
#include "proto/ring/torch_calls.def"
#undef GORDIAN_TORCH_CALL
  kEveryCallCount,
};

enum class Library : uint8_t { kNccl, kRuntime, kDriver, kNone, kTorch };
constexpr const char* LibraryName(Library library) {
  constexpr const char* kNames[] = {"nccl", "cudart", "cuda", "", "torch"};
  return kNames[static_cast<int>(library)];
}

enum class CallStyle : uint8_t {
  kBlocks,  // recorded as kBegin and kEnd
  kPoint,   // one kPoint after success, or before a handle ends
  kSilent,  // forwarded; state may be kept, nothing is recorded
};

// What else an observer of a call needs to know.
enum CallTrait : uint32_t {
  kPerThread = 1u << 0,      // stream 0 is the calling thread's own default stream
  kDefaultStream = 1u << 1,  // works on the default stream, and takes none
  // Work(kKernels):
  kLaunch = 1u << 2,       // launches one kernel
  kCopiesAsync = 1u << 3,  // waits all the same where the target is pageable host memory
  kToHost = 1u << 4,       // kCopiesAsync: no argument rules out that the target is host memory
  // Work(kEventForgotten):
  kMakesEvent = 1u << 5,
  kDestroysEvent = 1u << 6,
  // Captures, devices, contexts:
  kBeginsCapture = 1u << 7,
  kChangesDevice = 1u << 8,  // another device may be current after it
  kResetsDevice = 1u << 9,
  kDestroysContext = 1u << 10,
  // CommCall:
  kRegistersMemory = 1u << 11,
  kDeregistersMemory = 1u << 12,
  // Silent:
  kLooksUp = 1u << 13,  // gives functions of the driver by name
  // Operation:
  kOtherForm = 1u << 14,  // another row means the same, and signatures name that one
};

// What a call does, as far as anything reads it. Kinds that a call does not have are 0.
struct Effect {
  PayloadKind payload;
  CallStyle style;
  Meaning meaning;
  WorkKind work;    // PayloadKind::kStreamWork. A batch of memory operations is kMemoryWait
  WaitKind wait;    // PayloadKind::kHostWait, unless it polls
  GraphCall graph;  // PayloadKind::kGraph
  uint32_t traits;  // CallTrait
};

struct CallInfo : Effect {
  Library library;
  const char* name;
  const char* rules;
  const char* parameters;  // as in C, in parentheses

  constexpr bool Has(CallTrait trait) const { return (traits & trait) != 0; }
};

// The vocabulary of the column `effect`. A word with a kind that does not belong to it does not
// compile.
namespace effects {

using enum Meaning;
using enum WorkKind;
using enum WaitKind;
using enum GraphCall;
inline constexpr Library nccl = Library::kNccl, cudart = Library::kRuntime, cuda = Library::kDriver;

// Declared for its name in the compiler's message, and never defined.
void ThisWordDoesNotGoWithThisKind();
consteval void Need(bool fits) {
  if (!fits) ThisWordDoesNotGoWithThisKind();
}
consteval bool IsBetween(Meaning meaning, Meaning first, Meaning last) {
  return meaning >= first && meaning <= last;
}
consteval Effect Make(PayloadKind payload, CallStyle style, Meaning meaning) {
  return {payload, style, meaning, WorkKind{}, WaitKind{}, GraphCall{}, 0};
}
consteval bool Fits(const Effect& effect, CallTrait trait) {
  switch (trait) {
    case kPerThread:
    case kChangesDevice:
      return true;
    case kDefaultStream:
      return effect.payload == PayloadKind::kStreamWork;
    case kLaunch:
    case kCopiesAsync:
      return effect.work == kKernels;
    case kToHost:
      return (effect.traits & kCopiesAsync) != 0;
    case kMakesEvent:
    case kDestroysEvent:
      return effect.work == kEventForgotten;
    case kBeginsCapture:
      return effect.payload == PayloadKind::kNone || effect.payload == PayloadKind::kGraph;
    case kResetsDevice:
      return effect.wait == kDevice;
    case kRegistersMemory:
    case kDeregistersMemory:
      return effect.payload == PayloadKind::kCommCall;
    case kDestroysContext:
    case kLooksUp:
      return effect.payload == PayloadKind::kNone;
    case kOtherForm:
      return effect.payload == PayloadKind::kOperation;
  }
  return false;
}
consteval Effect operator|(Effect effect, CallTrait trait) {
  Need(Fits(effect, trait));
  effect.traits |= trait;
  return effect;
}

// Forwarded; nothing is recorded of it.
consteval Effect Silent() { return Make(PayloadKind::kNone, CallStyle::kSilent, kOther); }
// A collective, a send or a receive.
consteval Effect Operation(Meaning what) {
  Need(IsBetween(what, kBarrier, kRecv));
  return Make(PayloadKind::kOperation, CallStyle::kBlocks, what);
}
// RMA.
consteval Effect Signal(Meaning what) {
  Need(IsBetween(what, kPutSignal, kWaitSignal));
  return Make(PayloadKind::kSignal, CallStyle::kBlocks, what);
}
// kOther: the end of a group that is only simulated.
consteval Effect Group(Meaning what) {
  Need(IsBetween(what, kGroupStart, kGroupEnd) || what == kOther);
  return Make(PayloadKind::kGroup, what == kGroupEnd ? CallStyle::kBlocks : CallStyle::kSilent,
              what);
}
// Makes a communicator, or several.
consteval Effect CommInit(Meaning what) {
  Need(IsBetween(what, kCommInit, kCommGrow));
  return Make(PayloadKind::kCommInit, CallStyle::kBlocks, what);
}
// Does something to a communicator.
consteval Effect CommCall(Meaning what) {
  Need(IsBetween(what, kCommFinalize, kCommOther));
  return Make(PayloadKind::kCommCall, CallStyle::kBlocks, what);
}
// Asks a communicator for its state.
consteval Effect CommQuery() { return Make(PayloadKind::kCommCall, CallStyle::kSilent, kOther); }
consteval Effect StreamCreate() {
  return Make(PayloadKind::kStreamCreate, CallStyle::kPoint, kStreamCreate);
}
consteval Effect StreamDestroy() {
  return Make(PayloadKind::kStreamDestroy, CallStyle::kPoint, kStreamDestroy);
}
// Work on a stream, and what has to do with events and memory.
consteval Effect Work(WorkKind kind) {
  Need(kind >= kKernels && kind <= kMemoryShared);
  Effect effect = Make(PayloadKind::kStreamWork, CallStyle::kPoint, kStreamWork);
  effect.work = kind;
  return effect;
}
// The calling thread waits.
consteval Effect Wait(WaitKind kind) {
  Need((kind >= kStream && kind <= kCopy) || kind == kOperation || kind == kStore);
  Effect effect = Make(PayloadKind::kHostWait, CallStyle::kBlocks, kHostWait);
  effect.wait = kind;
  return effect;
}
// The calling thread asks, and does not wait.
consteval Effect Poll() { return Make(PayloadKind::kHostWait, CallStyle::kSilent, kPoll); }
// What tells which operations an executable graph holds.
consteval Effect Graph(GraphCall what) {
  Need(what >= kEndCapture && what <= kExecDestroy);
  constexpr Meaning kMeanings[] = {kOther,     kGraphEndCapture,  kGraphDestroy,    kGraphClone,
                                   kGraphNest, kGraphInstantiate, kGraphExecDestroy};
  Effect effect = Make(PayloadKind::kGraph, CallStyle::kPoint, kMeanings[static_cast<int>(what)]);
  effect.graph = what;
  return effect;
}

inline constexpr CallInfo kCalls[] = {
    {Silent(), Library::kNone, "", "-", "()"},
#define GORDIAN_HOOK(library, name, effect, rules, result, parameters, arguments) \
  {effect, library, #name, rules, #parameters},
#include "proto/ring/hooked_calls.def"
#undef GORDIAN_HOOK
};

// A piece of a text.
consteval Effect Text() { return Make(PayloadKind::kPiece, CallStyle::kPoint, kText); }

inline constexpr CallInfo kTorchCalls[] = {
#define GORDIAN_TORCH_CALL(name, effect, rules) \
  {effect, Library::kTorch, "torch_" #name, rules, "()"},
#include "proto/ring/torch_calls.def"
#undef GORDIAN_TORCH_CALL
};

}  // namespace effects

// By CallId.
using effects::kCalls;
static_assert(sizeof(kCalls) / sizeof(kCalls[0]) == kCallCount);
// By CallId or TorchCallId, which is below kEveryCallCount.
constexpr const CallInfo& RowOf(uint16_t call) {
  return call < kCallCount ? kCalls[call] : effects::kTorchCalls[call - kCallCount];
}

struct Introduction {
  CallId call;
  uint32_t version;
};
inline constexpr Introduction kIntroductions[] = {
#define GORDIAN_INTRODUCED(symbol, version) {kCall_##symbol, version},
#include "proto/ring/introduced_in.def"
#undef GORDIAN_INTRODUCED
};

// The first release of its library that has the call: NCCL_VERSION_CODE, or 13000 for CUDA 13.0. 0:
// not known.
constexpr uint32_t IntroducedIn(uint16_t call) {
  for (const Introduction& one : kIntroductions) {
    if (one.call == call) return one.version;
  }
  return 0;
}

}  // namespace gordian::ring

#endif  // GORDIAN_PROTO_RING_CALLS_H_
