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
  transfers_.clear();
  return true;
}

void Kernel::Cancel() { Leave(); }

bool Kernel::Leave() {
  for (auto& transfer : transfers_) transfer->Abandon();
  transfers_.clear();
  return true;
}

void RingSelf() { FutexBump(GetEngine().Doorbell()); }

}  // namespace gordian::emu::nccl
