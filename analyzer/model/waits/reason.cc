#include "analyzer/model/waits/reason.h"

#include <iterator>

namespace gordian::model {
namespace {

struct Row {
  Reason reason;
  const char* name;
  bool rendezvous = false;
};
constexpr Row kRows[] = {
    {Reason::kStartedCollective, "started_collective", true},
    {Reason::kFirstUse, "first_use", true},
    {Reason::kReceive, "receive", true},
    {Reason::kSend, "send", true},
    {Reason::kStreamOrder, "stream_order"},
    {Reason::kEventWait, "event_wait"},
    {Reason::kHostSync, "host_sync"},
    {Reason::kHostFree, "host_free"},
    {Reason::kHostCopy, "host_copy"},
    {Reason::kCommunicatorOrder, "communicator_order"},
    {Reason::kCommunicatorInit, "communicator_init", true},
    {Reason::kCommunicatorCall, "communicator_call", true},
    {Reason::kNotCalled, "not_called"},
    {Reason::kOpenGroup, "open_group"},
    {Reason::kLegacyStream, "legacy_stream"},
    {Reason::kPolling, "polling"},
    {Reason::kGraphOrder, "graph_order"},
    {Reason::kMemoryWait, "memory_wait", true},
    {Reason::kLaunchOrder, "launch_order"},
    {Reason::kResources, "resources"},
    {Reason::kSignal, "signal", true},
    {Reason::kHostOperation, "host_operation"},
    {Reason::kStoreKey, "store_key", true},
};

constexpr bool InOrder() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (kRows[i].reason != static_cast<Reason>(i)) return false;
  }
  return std::size(kRows) == static_cast<size_t>(Reason::kStoreKey) + 1;
}
static_assert(InOrder(), "a row for each reason, in the order of the enumeration");

const Row& RowOf(Reason reason) { return kRows[static_cast<size_t>(reason)]; }

}  // namespace

const char* Name(Reason reason) { return RowOf(reason).name; }

bool IsRendezvous(Reason reason) { return RowOf(reason).rendezvous; }

std::optional<Reason> ReasonByName(std::string_view name) {
  for (const Row& row : kRows) {
    if (name == row.name) return row.reason;
  }
  return std::nullopt;
}

}  // namespace gordian::model
