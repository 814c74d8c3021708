#include "emulator/nccl/kernel.h"

#include "emulator/nccl/futex.h"

namespace gordian::emu::nccl {

bool Kernel::Start() {
  std::lock_guard lock(mutex_);
  if (comm_ == nullptr || comm_->cancelled()) return Leave();
  for (auto& transfer : transfers_) transfer->Start();
  return Step();
}

bool Kernel::Poll() {
  std::lock_guard lock(mutex_);
  return Step();
}

bool Kernel::Step() {
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

void Kernel::Cancel() {
  std::lock_guard lock(mutex_);
  Leave();
}

std::string Kernel::Describe() {
  std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return {};
  std::string text = comm_->segment().label() + ", \"parts\": [";
  bool first = true;
  for (auto& transfer : transfers_) {
    if (transfer->done()) continue;
    text += (first ? "{" : ", {") + transfer->Describe() +
            ", \"for\": " + ListOf(transfer->WaitsFor()) + "}";
    first = false;
  }
  return text + "]";
}

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
