// What runs on the emulated device: all operations of one group on one communicator.
#ifndef GORDIAN_EMULATOR_NCCL_KERNEL_H_
#define GORDIAN_EMULATOR_NCCL_KERNEL_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/engine/engine_api.h"
#include "emulator/nccl/comm.h"
#include "emulator/nccl/transfer.h"

namespace gordian::emu::nccl {

class Kernel final : public DeviceOp {
 public:
  explicit Kernel(std::shared_ptr<Comm> comm) : comm_(std::move(comm)) {}
  // Before it is enqueued.
  void Add(std::unique_ptr<Transfer> transfer) { transfers_.push_back(std::move(transfer)); }

  bool Start() override;
  bool Poll() override;
  void Cancel() override;
  std::string Describe() override;

 private:
  bool Step();
  bool Leave();
  void Drop();

  // The worker's methods against Describe, which the quiescence report calls from another thread.
  std::mutex mutex_;
  std::shared_ptr<Comm> comm_;
  std::vector<std::unique_ptr<Transfer>> transfers_;
};

// Makes the worker of this process look at its kernels.
void RingSelf();

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_KERNEL_H_
