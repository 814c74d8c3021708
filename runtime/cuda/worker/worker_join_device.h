// A stream waits for detached operations by a kernel of one block that helps: until they have
// ended, the block serves published operations as a block of the resident worker does. So the
// operations advance even if no instance of the worker can start, as when the worker's stream
// shares the waiting stream's hardware queue.
//
// The block does not belong to an instance: it does not take part in an instance's start and end.
// As an instance's leader, it copies what the host has published to the device, and advances the
// list's head. Claims keep it and the instance's blocks from serving the same channel.
//
// Thread rule: all threads of a block call together. Block: as worker_device.h requires, and
//   void Doze()              sleeps a moment when nothing was ready for this block
#ifndef GORDIAN_RUNTIME_CUDA_WORKER_WORKER_JOIN_DEVICE_H_
#define GORDIAN_RUNTIME_CUDA_WORKER_WORKER_JOIN_DEVICE_H_

#include <cstdint>

#include "runtime/cuda/worker/worker_device.h"

namespace gordian::runtime::cuda {

inline constexpr uint32_t kJoinTickets = 64;  // of one kernel
struct JoinTickets {
  uint32_t count;
  uint32_t of[kJoinTickets];
};

GRT_HD inline bool HaveEnded(const WorkerHost* host, const JoinTickets& tickets) {
  for (uint32_t i = 0; i < tickets.count; ++i) {
    if (static_cast<int32_t>(Load<kSystem, kAcquire>(&host->ended[tickets.of[i] % kTickets]) -
                             tickets.of[i]) < 0)
      return false;
  }
  return true;
}

template <typename Block>
GRT_HD inline void HelpUntilEnded(Block& b, const WorkerView& v, const JoinTickets& tickets) {
  Composed composed;
  LookRounds look;
  uint64_t looked = 0;
  bool must_look = true;
  for (;;) {
    uint32_t state = 0;  // 1: over, 2: something was published
    if (b.Thread() == 0) {
      const uint64_t published = Load<kDevice, kAcquire>(&v.device->published);
      uint32_t head = Load<kSystem, kRelaxed>(&v.device->head);
      // The leader of an instance stores it too, so it may go back for a moment, which is harmless.
      while (static_cast<int32_t>(static_cast<uint32_t>(published) - head) > 0 &&
             IsDetachedDone(v, head))
        ++head;
      Store<kSystem, kRelaxed>(&v.device->head, head);
      const uint64_t now = b.Now();
      if (must_look || static_cast<int64_t>(now - looked) >= kWorkerLookEvery) {
        looked = now;
        if (HaveEnded(v.host, tickets) || Load<kSystem, kAcquire>(v.stop) != 0) {
          state = 1;
        } else if (Load<kSystem, kAcquire>(&v.host->published) != published) {
          state = 2;
        }
      }
    }
    state = b.Broadcast(state);
    if (state == 1) break;
    if (state == 2) TakeIn(b, v);
    must_look = WorkOnce(b, v, 0, 1, IsLookRound(&look, 1), &composed);
    if (!must_look) b.Doze();
  }
  Fence<kSystem>();  // the stream's later work sees what the operations have stored
}

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_WORKER_WORKER_JOIN_DEVICE_H_
