#include "analyzer/server/call_symbols.h"

#include <utility>

#include "proto/ring/calls.h"

namespace gordian::server {
namespace {

using graph::Call;

constexpr std::pair<std::string_view, Call> kNcclCalls[] = {
    {"ncclAllReduce", Call::kAllReduce},
    {"ncclAllGather", Call::kAllGather},
    {"ncclReduceScatter", Call::kReduceScatter},
    {"ncclBroadcast", Call::kBroadcast},
    {"ncclBcast", Call::kBroadcast},
    {"ncclReduce", Call::kReduce},
    {"ncclAlltoAll", Call::kAllToAll},
    {"ncclGather", Call::kGather},
    {"ncclScatter", Call::kScatter},
    {"ncclSend", Call::kSend},
    {"ncclRecv", Call::kRecv},
    {"ncclPutSignal", Call::kPutSignal},
    {"ncclSignal", Call::kSignal},
    {"ncclWaitSignal", Call::kWaitSignal},
    {"ncclGroupStart", Call::kGroupStart},
    {"ncclGroupEnd", Call::kGroupEnd},
    {"ncclCommInitRank", Call::kCommInit},
    {"ncclCommInitRankConfig", Call::kCommInit},
    {"ncclCommInitRankScalable", Call::kCommInit},
    {"ncclCommInitAll", Call::kCommInitAll},
    {"ncclCommSplit", Call::kCommSplit},
    {"ncclCommShrink", Call::kCommShrink},
    {"ncclCommFinalize", Call::kCommFinalize},
    {"ncclCommDestroy", Call::kCommDestroy},
    {"ncclCommAbort", Call::kCommAbort},
    {"ncclCommRevoke", Call::kCommRevoke},
    {"ncclCommWindowRegister", Call::kCommWindowRegister},
    {"ncclCommWindowDeregister", Call::kCommOther},
    {"ncclCommRegister", Call::kCommOther},
    {"ncclCommDeregister", Call::kCommOther},
    {"ncclCommSuspend", Call::kCommOther},
    {"ncclCommResume", Call::kCommOther},
    {"ncclCommGrow", Call::kCommGrow},
    {"ncclMemFree", Call::kHostWait},
};

bool StripSuffix(std::string_view* symbol, std::string_view suffix) {
  if (!symbol->ends_with(suffix)) return false;
  symbol->remove_suffix(suffix.size());
  return true;
}

Call FromTable(std::string_view symbol) {
  for (const ring::CallInfo& info : ring::kCalls) {
    if (symbol != info.name) continue;
    switch (info.payload) {
      case ring::PayloadKind::kHostWait:
        return info.style == ring::CallStyle::kSilent ? Call::kPoll : Call::kHostWait;
      case ring::PayloadKind::kStreamWork:
        return Call::kStreamWork;
      case ring::PayloadKind::kStreamCreate:
        return Call::kStreamCreate;
      case ring::PayloadKind::kStreamDestroy:
        return Call::kStreamDestroy;
      default:
        return Call::kOther;
    }
  }
  return Call::kOther;
}

}  // namespace

graph::Call CallFromSymbol(std::string_view symbol) {
  for (const auto& [name, call] : kNcclCalls) {
    if (symbol == name) return call;
  }
  if (Call call = FromTable(symbol); call != Call::kOther) return call;
  // Twins for per-thread default streams, and versioned driver symbols of other releases.
  std::string_view base = symbol;
  if (StripSuffix(&base, "_ptsz") || StripSuffix(&base, "_ptds") || StripSuffix(&base, "_v2") ||
      StripSuffix(&base, "_v3")) {
    return FromTable(base);
  }
  return Call::kOther;
}

}  // namespace gordian::server
