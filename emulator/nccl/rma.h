// RMA: signals between two members, puts into a member's window, and waits for signals.
//
// What nccl.h of 2.30 says and no more: a signal, and a put with the signal behind it, waits for
// nobody; a wait waits for so many signals of each of the peers that it names, and uses them up.
// Operations are in the order of their streams; across streams, and within a group on one stream,
// they have none. Whether NCCL orders them further has not been measured.
#ifndef GORDIAN_EMULATOR_NCCL_RMA_H_
#define GORDIAN_EMULATOR_NCCL_RMA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/engine/engine_api.h"
#include "emulator/nccl/shared_layout.h"

namespace gordian::emu::nccl {

class Comm;

enum class RmaKind : uint8_t { kPutSignal, kSignal, kWaitSignal };

struct SignalWait {
  int peer = 0;
  size_t slot = 0;  // SignalSlot()
  uint64_t count = 0;
};

struct RmaOperation {
  RmaKind kind = RmaKind::kSignal;
  Stream* stream = nullptr;
  // Puts and signals.
  int peer = 0;
  size_t slot = 0;
  const std::byte* data = nullptr;
  uint64_t bytes = 0;
  Window target = {};  // of a put: at the peer; `offset` and `address` are where its bytes go
  // Waits.
  std::vector<SignalWait> waits;
};

// All RMA operations of one group on one communicator and one stream.
class RmaKernel final : public DeviceOp {
 public:
  RmaKernel(std::shared_ptr<Comm> comm, std::vector<RmaOperation> operations);
  ~RmaKernel() override;

  bool Start() override;
  bool Poll() override;
  void Cancel() override;
  std::string Describe() override;

 private:
  struct Need {
    SignalWait wait;
    uint64_t until = 0;  // so many signals have to have come, of all times
  };
  bool Step();
  bool Leave();
  bool Has(const Need&) const;

  // The worker's methods against Describe, which the quiescence report calls from another thread.
  std::mutex mutex_;
  std::shared_ptr<Comm> comm_;
  std::vector<RmaOperation> operations_;
  std::vector<Need> needs_;
  bool started_ = false;
};

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_RMA_H_
