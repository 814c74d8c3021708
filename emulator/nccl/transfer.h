// The device side of one operation of one member: publishes it, stages its bytes, takes the
// others'.
//
// All methods are called by the engine's worker thread. A transfer never blocks; Step() does what
// can be done now. Whoever changes shared words rings the others' doorbells (Kernel does, once a
// round).
#ifndef GORDIAN_EMULATOR_NCCL_TRANSFER_H_
#define GORDIAN_EMULATOR_NCCL_TRANSFER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "emulator/nccl/operation.h"
#include "emulator/nccl/segment.h"

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

// A member's own account, used by the worker only.
struct DeviceState {
  std::shared_ptr<Segment> segment;
  int rank = 0;
  // Ordinals are given when a kernel starts, not when it is called: a captured operation runs any
  // number of times, and operations of a communicator start in the order of their launches.
  uint64_t next_collective = 0;
  std::vector<uint64_t> next_send;  // by peer
  std::vector<uint64_t> next_receive;
  // By peer: the connection was crossed (comm.h). Written before the launch of what uses it.
  std::vector<std::atomic<bool>> send_crossed;
  std::vector<std::atomic<bool>> receive_crossed;
  PrefixCounter collectives;
  std::vector<PrefixCounter> receives;  // by source
  // RMA, by peer and slot: what the waits that have started use up.
  std::map<std::pair<int, size_t>, uint64_t> signals_taken;
  // Pushed bytes that their readers have not taken yet.
  std::shared_ptr<uint64_t> unread_bytes = std::make_shared<uint64_t>(0);
};

class Transfer {
 public:
  virtual ~Transfer() = default;
  // The operation is resident now.
  virtual void Start() = 0;
  // Returns whether anything visible to others changed.
  virtual bool Step() = 0;
  virtual bool done() const = 0;
  // The member aborted: leaves staged bytes to those that still read them.
  virtual void Abandon() = 0;
  // For reports. The operation as members of a JSON object, and the members that it waits for:
  // their part has not started, or not moved as far as needed.
  virtual std::string Describe() const = 0;
  virtual std::vector<int> WaitsFor() const = 0;
};

// `ordinal` is the sequence number of the collective on its communicator, or of the send or receive
// among those to (from) the same peer. `state` outlives the transfer.
std::unique_ptr<Transfer> MakeCollective(DeviceState* state, const Operation& operation,
                                         uint64_t ordinal, KernelShare share);
std::unique_ptr<Transfer> MakeSend(DeviceState* state, const Operation& operation,
                                   uint64_t ordinal);
std::unique_ptr<Transfer> MakeRecv(DeviceState* state, const Operation& operation,
                                   uint64_t ordinal);
// A send to oneself together with its receive.
std::unique_ptr<Transfer> MakeSelfCopy(const Operation& send, const Operation& recv);

// What crossed connections (comm.h) carry: nothing, for ever.
std::unique_ptr<Transfer> MakeCrossed(const Operation& operation, uint64_t ordinal);

// How many bytes a send, or a collective's push, may leave behind for a member that has not
// started: GORDIAN_EMU_P2P_BUFFER, else 4 MiB with NCCL_P2P_DISABLE=1, else without limit for sends
// and for what is carried out as sends (a gather leaf, a scatter root), and up to kLargeAboveBytes
// for a broadcast root and a reduce leaf.
uint64_t PushLimit(Kind kind);

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_TRANSFER_H_
