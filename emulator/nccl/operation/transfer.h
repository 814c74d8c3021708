// The device side of one operation of one member: publishes it, stages its bytes, takes the
// others'.
//
// The engine's worker thread calls all methods. A transfer never blocks; Step() does what is
// possible now. The caller that changes shared words rings the others' doorbells (Kernel does, once
// a round).
#ifndef GORDIAN_EMULATOR_NCCL_OPERATION_TRANSFER_H_
#define GORDIAN_EMULATOR_NCCL_OPERATION_TRANSFER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "emulator/nccl/comm/segment.h"
#include "emulator/nccl/operation/operation.h"

namespace gordian::emu::nccl {

// Turns "these ordinals are done", in any order, into "all below n are done".
class PrefixCounter {
 public:
  // The new prefix.
  uint64_t Add(uint64_t ordinal) {
    done_.insert(ordinal);
    while (!done_.empty() && *done_.begin() == prefix_) {
      done_.erase(done_.begin());
      ++prefix_;
    }
    return prefix_;
  }

 private:
  uint64_t prefix_ = 0;
  std::set<uint64_t> done_;
};

// A member's state, used by the worker only.
struct DeviceState {
  std::shared_ptr<Segment> segment;
  int rank = 0;
  // A kernel gets its ordinals when it starts, not when it is called: a captured operation runs any
  // number of times, and a communicator's operations start in the order of their launches.
  uint64_t next_collective = 0;
  std::vector<uint64_t> next_send;  // by peer
  std::vector<uint64_t> next_receive;
  // By peer: the connection is crossed (comm.h). Written before the launch that uses it.
  std::vector<std::atomic<bool>> send_crossed;
  std::vector<std::atomic<bool>> receive_crossed;
  PrefixCounter collectives;
  std::vector<PrefixCounter> receives;  // by source
  // RMA, by peer and slot: the signals that started waits consume.
  std::map<int, uint64_t> signals_taken;
  // Pushed bytes that their readers have not taken yet.
  std::shared_ptr<uint64_t> unread_bytes = std::make_shared<uint64_t>(0);
};

class Transfer {
 public:
  virtual ~Transfer() = default;
  // Called when the operation becomes resident.
  virtual void Start() = 0;
  // Returns true if anything visible to others changed.
  virtual bool Step() = 0;
  virtual bool done() const = 0;
  // Called when the member aborts: leaves staged bytes to their readers.
  virtual void Abandon() = 0;
  // For reports: the operation as members of a JSON object; and the members it waits for, whose
  // part has not started, or not moved far enough.
  virtual std::string Describe() const = 0;
  virtual std::vector<int> WaitsFor() const = 0;
};

// `ordinal` is the sequence number of the collective on its communicator, or of the send or receive
// among those to (from) the same peer. `state` must outlive the transfer.
std::unique_ptr<Transfer> MakeCollective(DeviceState* state, const Operation& operation,
                                         uint64_t ordinal, KernelShare share);
std::unique_ptr<Transfer> MakeSend(DeviceState* state, const Operation& operation,
                                   uint64_t ordinal);
std::unique_ptr<Transfer> MakeRecv(DeviceState* state, const Operation& operation,
                                   uint64_t ordinal);
// A send to oneself together with its receive.
std::unique_ptr<Transfer> MakeSelfCopy(const Operation& send, const Operation& recv);

// The transfer of a crossed connection (comm.h): carries nothing, for ever.
std::unique_ptr<Transfer> MakeCrossed(const Operation& operation, uint64_t ordinal);

// How many bytes a send, or a collective's push, may leave for a member that has not started:
// GORDIAN_EMU_P2P_BUFFER, else 4 MiB with NCCL_P2P_DISABLE=1, else unlimited for sends and for
// collectives that run as sends (a gather leaf, a scatter root), and up to kLargeAboveBytes for a
// broadcast root and a reduce leaf.
uint64_t PushLimit(Kind kind);

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_OPERATION_TRANSFER_H_
