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

RmaKernel::RmaKernel(std::shared_ptr<Comm> comm, std::vector<RmaOperation> operations)
    : comm_(std::move(comm)), operations_(std::move(operations)) {}
RmaKernel::~RmaKernel() = default;

bool RmaKernel::Start() {
  std::lock_guard lock(mutex_);
  if (comm_ == nullptr || comm_->cancelled()) return Leave();
  started_ = true;
  DeviceState& state = comm_->device_state();
  bool news = false;
  for (const RmaOperation& operation : operations_) {
    if (operation.kind == RmaKind::kWaitSignal) {
      for (const SignalWait& wait : operation.waits) {
        needs_.push_back({wait, state.signals_taken[{wait.peer, wait.slot}] += wait.count});
      }
      continue;
    }
    if (operation.kind == RmaKind::kPutSignal)
      Put(comm_->segment().member(operation.peer), operation);
    comm_->segment()
        .pair(comm_->rank(), operation.peer)
        .signals[operation.slot]
        .fetch_add(1, std::memory_order_release);
    if (operation.peer == comm_->rank()) RingSelf();
    news = true;
  }
  if (news) comm_->segment().RingOthers(comm_->rank());
  return Step();
}

bool RmaKernel::Poll() {
  std::lock_guard lock(mutex_);
  return Step();
}

bool RmaKernel::Has(const Need& need) const {
  return comm_->segment()
             .pair(need.wait.peer, comm_->rank())
             .signals[need.wait.slot]
             .load(std::memory_order_acquire) >= need.until;
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
  std::string text = comm_->segment().label() + ", \"parts\": [";
  bool first = true;
  for (const RmaOperation& operation : operations_) {
    if (started_ && operation.kind != RmaKind::kWaitSignal) continue;
    std::vector<int> peers;
    for (const Need& need : needs_) {
      if (!Has(need)) peers.push_back(need.wait.peer);
    }
    text += (first ? "{" : ", {") + std::string("\"operation\": \"") + NameOf(operation.kind) +
            "\", \"bytes\": " + std::to_string(operation.bytes);
    if (started_) text += ", \"for\": " + ListOf(peers);
    text += "}";
    first = false;
  }
  return text + "]";
}

ncclResult_t Comm::LaunchRma(const std::vector<RmaOperation>& operations) {
  std::vector<Stream*> streams;
  for (const RmaOperation& operation : operations) {
    if (std::find(streams.begin(), streams.end(), operation.stream) == streams.end())
      streams.push_back(operation.stream);
  }
  for (Stream* stream : streams) {
    if (GetEngine().IsCapturing(stream))
      return Fail(ncclInvalidUsage, "RMA in a CUDA graph is not emulated");
  }
  for (Stream* stream : streams) {
    std::vector<RmaOperation> together;
    std::copy_if(operations.begin(), operations.end(), std::back_inserter(together),
                 [stream](const RmaOperation& operation) { return operation.stream == stream; });
    EnqueueRequest request;
    request.streams = {stream};
    request.op = std::make_shared<RmaKernel>(shared_from_this(), std::move(together));
    std::lock_guard lock(rma_mutex_);
    std::erase_if(rma_, [](const auto& op) { return GetEngine().IsDone(op.get()); });
    rma_.push_back(request.op);
    GetEngine().Enqueue(std::move(request));
  }
  return ncclSuccess;
}

}  // namespace gordian::emu::nccl
