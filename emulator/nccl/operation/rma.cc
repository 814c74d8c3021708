#include "emulator/nccl/operation/rma.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "emulator/nccl/api/error.h"
#include "emulator/nccl/comm/comm.h"
#include "emulator/nccl/operation/kernel.h"

namespace gordian::emu::nccl {
namespace {

// Drops the bytes for an ended process: a put into it ends that way.
void Put(const Member& peer, const RmaOperation& put) {
  if (put.bytes == 0) return;
  if (peer.pid == getpid()) {
    std::memmove(reinterpret_cast<void*>(put.target.address), put.data, put.bytes);
    return;
  }
  const int file = OpenPeerFd(peer.pid, put.target.fd, put.target.inode);
  if (file < 0) return;
  uint64_t written = 0;
  while (written < put.bytes) {
    const ssize_t n = pwrite(file, put.data + written, put.bytes - written,
                             static_cast<off_t>(put.target.offset + written));
    if (n <= 0) break;
    written += static_cast<uint64_t>(n);
  }
  close(file);
}

const char* NameOf(RmaKind kind) {
  return kind == RmaKind::kPutSignal ? "PutSignal"
         : kind == RmaKind::kSignal  ? "Signal"
                                     : "WaitSignal";
}

}  // namespace

RmaKernel::RmaKernel(std::shared_ptr<Comm> comm, RmaOperation operation)
    : comm_(std::move(comm)), operation_(std::move(operation)) {}
RmaKernel::~RmaKernel() = default;

bool RmaKernel::Start() {
  std::lock_guard lock(mutex_);
  if (comm_ == nullptr || comm_->cancelled()) return Leave();
  started_ = true;
  if (operation_.kind == RmaKind::kWaitSignal) {
    for (const SignalWait& wait : operation_.waits) {
      needs_.push_back({wait, comm_->device_state().signals_taken[wait.peer] += wait.count});
    }
    return Step();
  }
  if (operation_.kind == RmaKind::kPutSignal)
    Put(comm_->segment().member(operation_.peer), operation_);
  comm_->segment()
      .pair(comm_->rank(), operation_.peer)
      .signals.fetch_add(1, std::memory_order_release);
  if (operation_.peer == comm_->rank()) RingSelf();
  comm_->segment().RingOthers(comm_->rank());
  return Step();
}

bool RmaKernel::Poll() {
  std::lock_guard lock(mutex_);
  return Step();
}

bool RmaKernel::Has(const Need& need) const {
  return comm_->segment()
             .pair(need.wait.peer, comm_->rank())
             .signals.load(std::memory_order_acquire) >= need.until;
}

bool RmaKernel::Step() {
  if (comm_ == nullptr || comm_->cancelled()) return Leave();
  if (!std::all_of(needs_.begin(), needs_.end(), [this](const Need& need) { return Has(need); }))
    return false;
  comm_.reset();
  return true;
}

void RmaKernel::Cancel() {
  std::lock_guard lock(mutex_);
  Leave();
}

bool RmaKernel::Leave() {
  comm_.reset();
  return true;
}

std::string RmaKernel::Describe() {
  std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return {};
  std::vector<int> peers;
  for (const Need& need : needs_) {
    if (!Has(need)) peers.push_back(need.wait.peer);
  }
  std::string text = comm_->segment().label() + ", \"parts\": [{\"operation\": \"" +
                     NameOf(operation_.kind) + "\", \"bytes\": " + std::to_string(operation_.bytes);
  if (started_) text += ", \"for\": " + ListOf(peers);
  return text + "}]";
}

ncclResult_t Comm::LaunchRma(const std::vector<RmaOperation>& operations) {
  std::vector<Stream*> streams;
  for (const RmaOperation& operation : operations) {
    if (GetEngine().IsCapturing(operation.stream))
      return Fail(ncclInvalidUsage, "RMA in a CUDA graph is not emulated");
    if (std::find(streams.begin(), streams.end(), operation.stream) == streams.end())
      streams.push_back(operation.stream);
  }
  for (const RmaOperation& operation : operations) {
    EnqueueRequest request;
    request.streams = streams;
    request.op = std::make_shared<RmaKernel>(shared_from_this(), operation);
    EnqueueNext(std::move(request));
  }
  return ncclSuccess;
}

}  // namespace gordian::emu::nccl
