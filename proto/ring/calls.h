// CallId: the number of a row of interpose/hooked_calls.def, and what a reader of records needs to
// know of it. The table is data and part of this contract; nothing else of interpose/ may be
// included outside of it.
#ifndef GORDIAN_PROTO_RING_CALLS_H_
#define GORDIAN_PROTO_RING_CALLS_H_

#include <stdint.h>

#include "proto/ring/record.h"

namespace gordian::ring {

// GORDIAN_HOOK(library, name, result, parameters, arguments, payload, blocks, rules)
//   library     nccl | cudart | cuda
//   payload     PayloadKind without its k
//   blocks      Blocks: recorded as kBegin and kEnd; Point: one kPoint after success;
//               Silent: forwarded, with state kept but nothing recorded
//   rules       wait-model rules that read it, "-" for none
enum class CallStyle : uint8_t { kBlocks, kPoint, kSilent };

enum CallId : uint16_t {
  kCallNone = 0,
#define GORDIAN_HOOK(library, name, result, parameters, arguments, payload, style, rules) \
  kCall_##name,
#include "interpose/hooked_calls.def"
#undef GORDIAN_HOOK
  kCallCount,
};

struct CallInfo {
  const char* library;
  const char* name;
  PayloadKind payload;
  CallStyle style;
  const char* rules;
  const char* parameters;  // as in C, in parentheses
};

inline constexpr CallInfo kCalls[] = {
    {"", "", PayloadKind::kNone, CallStyle::kSilent, "-", "()"},
#define GORDIAN_HOOK(library, name, result, parameters, arguments, payload, style, rules) \
  {#library, #name, PayloadKind::k##payload, CallStyle::k##style, rules, #parameters},
#include "interpose/hooked_calls.def"
#undef GORDIAN_HOOK
};

static_assert(sizeof(kCalls) / sizeof(kCalls[0]) == kCallCount);

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
