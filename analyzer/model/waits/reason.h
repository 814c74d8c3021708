// Why one node of the wait-for graph waits for another. An enumeration up to the last step: only
// reports and files turn it into a name.
#ifndef GORDIAN_ANALYZER_MODEL_WAITS_REASON_H_
#define GORDIAN_ANALYZER_MODEL_WAITS_REASON_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace gordian::model {

enum class Reason : uint8_t {
  kStartedCollective,
  kFirstUse,
  kReceive,
  kSend,
  kStreamOrder,
  kEventWait,
  kHostSync,
  kHostFree,
  kHostCopy,
  kCommunicatorOrder,
  kCommunicatorInit,
  kCommunicatorCall,
  kNotCalled,
  kOpenGroup,
  kLegacyStream,
  kPolling,
  kGraphOrder,
  kMemoryWait,
  kLaunchOrder,
  kResources,
  kSignal,
  kHostOperation,
  kStoreKey,
};

const char* Name(Reason);  // "started_collective", as in verdict.json
std::optional<Reason> ReasonByName(std::string_view name);

// True for the reasons by which one rank waits for what another has to do.
bool IsRendezvous(Reason);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_WAITS_REASON_H_
