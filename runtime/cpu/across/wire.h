// What the processes of a communicator on several nodes send each other. The bytes of a message's
// header are those of Wire; data may follow it.
#ifndef GORDIAN_RUNTIME_CPU_ACROSS_WIRE_H_
#define GORDIAN_RUNTIME_CPU_ACROSS_WIRE_H_

#include <bit>
#include <cstdint>
#include <type_traits>

#include "runtime/net/bootstrap.h"
#include "runtime/net/transport.h"

namespace gordian::runtime {

enum class WireType : uint8_t {
  kHello = 1,  // `from` takes messages of the communicator from now on
  kState = 2,  // of member `from`: where its board and a channel's counters are
  kData = 3,   // the same, and bytes of one of its lanes
  kAbort = 4,  // `number`: a grtResult_t; the data says why. Answered with another one
  kLeave = 5,  // `from` has finished; it has sent `number` of kState and kData before
  kLeft = 6,   // to that: they have come; `from` has sent `number`, and sends no more of them
  kGone = 7,   // to that: these have come as well; `from` is no more
  kPing = 8,   // of a process, whose number is `number`: answer
  kPong = 9,   // of the process `number`
};

inline constexpr uint32_t kWireMagic = 0x4e525447;  // "GTRN"

struct Wire {
  uint32_t magic = kWireMagic;
  uint16_t version = net::kWireVersion;
  WireType type = WireType::kHello;
  uint8_t channel = 0;
  uint64_t comm = 0;          // its key
  uint32_t from = 0, to = 0;  // ranks of the communicator
  uint64_t port = 0;          // its key
  uint64_t seq = 0;           // the operation that the member is at, in its window slot
  uint64_t done_seq = 0;      // the last one there that it has finished
  uint64_t signature = 0, scalar = 0;
  uint64_t consumed = 0, gathered = 0;
  uint64_t chunk = 0;   // kData: of the channel
  uint32_t offset = 0;  // kData: of the bytes, in the chunk
  uint32_t parts = 0;   // kData: messages that bring this chunk to this node
  uint32_t result = 0;  // kData: 1: of the results' lane, 0: of the contributions'
  uint32_t reserved = 0;
  uint64_t number = 0;
};
static_assert(sizeof(Wire) == 112 && sizeof(Wire) <= net::kMostHeaderBytes);
static_assert(std::is_trivially_copyable_v<Wire>);
static_assert(std::endian::native == std::endian::little, "numbers are sent as they are");

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CPU_ACROSS_WIRE_H_
