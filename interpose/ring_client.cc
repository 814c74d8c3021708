#include "interpose/ring_client.h"

namespace gordian::interpose {

bool MakeRoom(ThreadContext& thread, uint64_t most) {
  if (thread.ring_slots != 0) {
    thread.cached_tail = Shared(thread.slot->ring_tail).load(std::memory_order_acquire);
    // A tail beyond the head is not the collector's: treated as full, like any nonsense.
    if (thread.head - thread.cached_tail < most) return true;
  }
  Put(thread.slot->lost_records, thread.slot->lost_records + 1);
  // In this order: who reads both never takes it for a loss of something else.
  if (most < thread.ring_slots) Add(thread.header->lost_work, uint64_t{1});
  Add(thread.header->lost_records, uint64_t{1});
  return false;
}

}  // namespace gordian::interpose
