#include "emulator/nccl/kernel.h"

#include "emulator/nccl/futex.h"

namespace gordian::emu::nccl {

bool Kernel::Start() {
  if (comm_ == nullptr || comm_->cancelled()) return Leave();
  for (auto& transfer : transfers_) transfer->Start();
  return Poll();
}

bool Kernel::Poll() {
  if (comm_ == nullptr || comm_->cancelled()) return Leave();
  bool news = false, done = true;
  for (auto& transfer : transfers_) {
    news |= transfer->Step();
    done &= transfer->done();
  }
  if (news) comm_->segment().RingOthers(comm_->rank());
  if (!done) return false;
  Drop();
  return true;
}

void Kernel::Cancel() { Leave(); }

bool Kernel::Leave() {
  for (auto& transfer : transfers_) transfer->Abandon();
  Drop();
  return true;
}

// The communicator keeps its last kernel, so a kernel must not keep its communicator for ever.
void Kernel::Drop() {
  transfers_.clear();  // they point into the communicator
  comm_.reset();
}

void RingSelf() { FutexBump(GetEngine().Doorbell()); }

}  // namespace gordian::emu::nccl
