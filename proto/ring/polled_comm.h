// A communicator in ThreadSlot::poll_object: ncclCommGetAsyncError said ncclInProgress, again and
// again, as a query of an event says "not ready".
#ifndef GORDIAN_PROTO_RING_POLLED_COMM_H_
#define GORDIAN_PROTO_RING_POLLED_COMM_H_

#include <stdint.h>

namespace gordian::ring {

inline constexpr uint64_t kPolledComm = 1ull << 63;  // with the id below it; in no handle

}  // namespace gordian::ring

#endif  // GORDIAN_PROTO_RING_POLLED_COMM_H_
