// RMA: signals between two members, puts into a member's window, and waits for signals.
//
// As NCCL 2.30.7 does on H100s (tests/gpu/truth/windows.cc): a signal, and a put with a signal, waits
// for no member; a wait waits for the given number of signals of each peer that it names, and uses
// them up. All of them run in the order of the member's calls on the communicator, its collectives
// among them, whatever their streams; of one group, they run before its collectives. The first RMA
// call of a communicator returns when all members have made theirs.
#ifndef GORDIAN_EMULATOR_NCCL_OPERATION_RMA_H_
#define GORDIAN_EMULATOR_NCCL_OPERATION_RMA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/engine/engine_api.h"
#include "emulator/nccl/comm/shared_layout.h"

namespace gordian::emu::nccl {

class Comm;

enum class RmaKind : uint8_t { kPutSignal, kSignal, kWaitSignal };

struct SignalWait {
  int peer = 0;
  uint64_t count = 0;
};

struct RmaOperation {
  RmaKind kind = RmaKind::kSignal;
  Stream* stream = nullptr;
  // Puts and signals.
  int peer = 0;
  const std::byte* data = nullptr;
  uint64_t bytes = 0;
  Window target = {};  // of a put: the peer's window; `offset` and `address` say where its bytes go
  // Waits.
  std::vector<SignalWait> waits;
};

class RmaKernel final : public DeviceOp {
 public:
  RmaKernel(std::shared_ptr<Comm> comm, RmaOperation operation);
  ~RmaKernel() override;

  bool Start() override;
  bool Poll() override;
  void Cancel() override;
  std::string Describe() override;

 private:
  struct Need {
    SignalWait wait;
    uint64_t until = 0;  // the total number of signals that must have come
  };
  bool Step();
  bool Leave();
  bool Has(const Need&) const;

  // Protects the worker's methods from Describe, which the quiescence report calls on another
  // thread.
  std::mutex mutex_;
  std::shared_ptr<Comm> comm_;
  const RmaOperation operation_;
  std::vector<Need> needs_;
  bool started_ = false;
};

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_OPERATION_RMA_H_
