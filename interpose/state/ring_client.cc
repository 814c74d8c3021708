#include "interpose/state/ring_client.h"

namespace gordian::interpose {

bool MakeRoom(ThreadContext& thread, uint64_t most) {
  if (thread.ring_slots != 0) {
    // litmus: ring.room
    thread.cached_tail = Shared(thread.slot->ring_tail).load(std::memory_order_acquire);
    // A tail beyond the head is not the collector's: treats the ring as full, as for any invalid
    // value.
    if (thread.head - thread.cached_tail < most) return true;
  }
  Put(thread.slot->lost_records, thread.slot->lost_records + 1);
  // In this order, a reader of both never takes it for the loss of another kind.
  if (most < thread.ring_slots) Add(thread.header->lost_work, uint64_t{1});
  Add(thread.header->lost_records, uint64_t{1});
  return false;
}

}  // namespace gordian::interpose
