// The work of the emulated device: all operations of one group on one communicator.
#ifndef GORDIAN_EMULATOR_NCCL_OPERATION_KERNEL_H_
#define GORDIAN_EMULATOR_NCCL_OPERATION_KERNEL_H_

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "emulator/engine/engine_api.h"
#include "emulator/nccl/comm/comm.h"
#include "emulator/nccl/operation/transfer.h"

namespace gordian::emu::nccl {

class Kernel final : public DeviceOp {
 public:
  Kernel(std::shared_ptr<Comm> comm, std::vector<Operation> operations)
      : comm_(std::move(comm)), operations_(std::move(operations)) {}

  bool Start() override;
  bool Poll() override;
  void Cancel() override;
  std::string Describe() override;

 private:
  void MakeTransfers();
  bool Step();
  bool Leave();
  void Spoil();
  void Drop();

  // Protects the worker's methods from Describe, which the quiescence report calls on another
  // thread.
  std::mutex mutex_;
  std::shared_ptr<Comm> comm_;
  std::vector<Operation> operations_;
  std::vector<std::unique_ptr<Transfer>> transfers_;
};

// A kernel in a graph; makes one kernel per launch. Real NCCL, too, delays a communicator's end
// while such graphs exist.
class CapturedKernel final : public OpSource {
 public:
  CapturedKernel(std::shared_ptr<Comm> comm, std::vector<Operation> operations);
  ~CapturedKernel() override;
  Run MakeRun() override;

 private:
  std::shared_ptr<Comm> comm_;
  std::vector<Operation> operations_;
};

// Makes the worker of this process look at its kernels.
void RingSelf();

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_OPERATION_KERNEL_H_
