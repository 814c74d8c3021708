#include "emulator/nccl/operation/kernel.h"

#include <algorithm>
#include <cstring>

#include "emulator/nccl/comm/futex.h"
#include "emulator/nccl/operation/mismatch.h"

namespace gordian::emu::nccl {

void Kernel::MakeTransfers() {
  DeviceState& state = comm_->device_state();
  std::vector<const Operation*> sends_to_self, receives_from_self;
  const auto divides = [](const Operation& op) {
    return !op.IsPointToPoint() && !IsPairwise(op.kind);
  };
  const auto together =
      static_cast<uint32_t>(std::count_if(operations_.begin(), operations_.end(), divides));
  uint32_t place = 0;
  for (const Operation& op : operations_) {
    if (!op.IsPointToPoint()) {
      const KernelShare share = divides(op) ? KernelShare{together, place++} : KernelShare();
      transfers_.push_back(MakeCollective(&state, op, state.next_collective++, share));
    } else if (op.root == comm_->rank()) {
      (op.kind == Kind::kSend ? sends_to_self : receives_from_self).push_back(&op);
    } else if (op.kind == Kind::kSend) {
      const uint64_t ordinal = state.next_send[op.root]++;
      transfers_.push_back(state.send_crossed[op.root] ? MakeCrossed(op, ordinal)
                                                       : MakeSend(&state, op, ordinal));
    } else {
      const uint64_t ordinal = state.next_receive[op.root]++;
      transfers_.push_back(state.receive_crossed[op.root] ? MakeCrossed(op, ordinal)
                                                          : MakeRecv(&state, op, ordinal));
    }
  }
  // As many of the one as of the other: checked when the group ended.
  for (size_t i = 0; i < sends_to_self.size(); ++i) {
    transfers_.push_back(MakeSelfCopy(*sends_to_self[i], *receives_from_self[i]));
  }
}

bool Kernel::Start() {
  std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return Leave();
  if (comm_->cancelled()) {
    Spoil();
    return Leave();
  }
  MakeTransfers();
  for (auto& transfer : transfers_) transfer->Start();
  return Step();
}

bool Kernel::Poll() {
  std::lock_guard lock(mutex_);
  return Step();
}

bool Kernel::Step() {
  if (comm_ == nullptr) return Leave();
  if (comm_->cancelled()) {
    Spoil();
    return Leave();
  }
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
  if (transfers_.empty()) {  // not started: it has no position on the communicator yet
    for (const Operation& operation : operations_) {
      text += (first ? "{" : ", {") + DescribeOperation(operation) + "}";
      first = false;
    }
  }
  for (auto& transfer : transfers_) {
    if (transfer->done()) continue;
    text += (first ? "{" : ", {") + transfer->Describe() +
            ", \"for\": " + ListOf(transfer->WaitsFor()) + "}";
    first = false;
  }
  return text + "]";
}

// A kernel that is ended leaves anything in its output, and so in its input where that is in place:
// measured with 2.28.9, where LL and LL128 always do.
void Kernel::Spoil() {
  constexpr int kAnything = 0xa5;
  for (const Operation& op : operations_) {
    const bool rooted = op.kind == Kind::kReduce || op.kind == Kind::kGather;
    if (op.recv == nullptr || op.kind == Kind::kSend || (rooted && op.root != comm_->rank())) {
      continue;
    }
    const bool blocks =
        op.kind == Kind::kAllGather || op.kind == Kind::kAlltoAll || op.kind == Kind::kGather;
    const auto count = blocks ? static_cast<uint64_t>(comm_->nranks()) : 1;
    std::memset(op.recv, kAnything, op.bytes() * count);
  }
}

bool Kernel::Leave() {
  for (auto& transfer : transfers_) transfer->Abandon();
  Drop();
  return true;
}

// The communicator keeps its last kernel, so a kernel must not keep its communicator alive.
void Kernel::Drop() {
  transfers_.clear();  // they point into the communicator
  comm_.reset();
}

CapturedKernel::CapturedKernel(std::shared_ptr<Comm> comm, std::vector<Operation> operations)
    : comm_(std::move(comm)), operations_(std::move(operations)) {
  comm_->RetainForGraph();
}

CapturedKernel::~CapturedKernel() { comm_->ReleaseForGraph(); }

OpSource::Run CapturedKernel::MakeRun() {
  comm_->CountOperations(operations_);
  auto kernel = std::make_shared<Kernel>(comm_, operations_);
  return {kernel, comm_->ExchangeLast(kernel)};
}

void RingSelf() { FutexBump(GetEngine().Doorbell()); }

}  // namespace gordian::emu::nccl
