// One thread publishes records in a ring of four slots by the shim's own functions, another takes
// them as the collector does. Built with ThreadSanitizer by race_test.py, with the shim's sources as
// they are and with one order taken out.
#include <sched.h>

#include <cstdio>
#include <cstring>
#include <thread>

#include "interpose/state/ring_client.h"

namespace gordian::interpose {
namespace {

constexpr uint64_t kSlots = 4;
constexpr uint64_t kRecords = 4000;

ring::Header header;
ring::ThreadSlot slot;
ring::Record records[kSlots];
ThreadContext context;

void Publish() {
  for (uint64_t order = 1; order <= kRecords;) {
    ring::Record* const record = StartRecord(context, ring::RecordKind::kPoint,
                                             ring::kCall_cudaLaunchKernel, 0, order, 0, 0);
    if (record == nullptr) {
      sched_yield();
      continue;
    }
    record->payload.end = {};
    FinishRecord(context);
    ++order;
  }
}

// False: a record came that was not published.
bool Take() {
  bool fine = true;
  for (uint64_t taken = 0; taken < kRecords;) {
    const uint64_t head = __atomic_load_n(&slot.ring_head, __ATOMIC_ACQUIRE);
    for (uint64_t at = taken; at < head; ++at) {
      ring::Record copy;
      std::memcpy(&copy, &records[at % kSlots], sizeof(copy));
      fine = fine && copy.order == at + 1;
    }
    if (head == taken) sched_yield();
    taken = head;
    __atomic_store_n(&slot.ring_tail, taken, __ATOMIC_RELEASE);
  }
  return fine;
}

}  // namespace
}  // namespace gordian::interpose

int main() {
  using namespace gordian::interpose;
  context.header = &header;
  context.slot = &slot;
  context.records = records;
  context.ring_slots = kSlots;
  context.work_slots = kSlots;
  std::thread writer(Publish);
  const bool fine = Take();
  writer.join();
  std::puts(fine ? "taken" : "torn");
  return fine ? 0 : 1;
}
