#include "runtime/cuda/domain.h"

#include <string.h>

#include <algorithm>
#include <utility>

#include "runtime/cuda/carrier.h"
#include "runtime/cuda/communicator.h"

namespace gordian::runtime::cuda {
namespace {

constexpr uint64_t kAlignment = 256;
// Of 512 threads with 64 registers, two fit a multiprocessor; the smallest device with NVLink that this is
// for has 132 of them.
constexpr uint32_t kResidentBlocks = 264;

Status Cuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return Status::Ok();
  return Status::Internal(std::string(what) + ": " + cudaGetErrorString(error));
}

}  // namespace

Status Domain::Create(const DomainConfig& config, std::unique_ptr<Domain>* domain) {
  if (config.ranks < 1 || config.ranks > static_cast<int>(kMaxRanks) || config.communicators < 1 ||
      config.bulk_channels < 1 || config.bulk_channels > kMaxChannels || config.line_channels < 1 ||
      config.line_channels > kMaxChannels || config.help_streams < 0 || config.resident_streams < 1 ||
      config.detached_tags < 0 || config.worker.blocks < 1 || config.detached_channels < 1 ||
      config.detached_channels > kMaxChannels ||
      config.resident_streams + config.worker.blocks > kResidentBlocks) {
    return Status::InvalidArgument("the domain's configuration makes no sense");
  }
  std::unique_ptr<Domain> d(new Domain(config));
  const uint32_t most = (kResidentBlocks - (config.detached_tags > 0 ? config.worker.blocks : 0)) /
                        static_cast<uint32_t>(config.resident_streams);
  d->config_.bulk_channels = std::min(config.bulk_channels, most);
  d->config_.line_channels = std::min(config.line_channels, most);
  if (Status s = Rendezvous::Join(config.name, config.rank, config.ranks, config.timeout_ms, &d->rendezvous_);
      !s.ok()) {
    return s;
  }
  if (Status s = d->Prepare(); !s.ok()) return s;
  *domain = std::move(d);
  return Status::Ok();
}

Status Domain::Prepare() {
  if (Status s = Cuda(cudaSetDevice(config_.device), "selecting the device"); !s.ok()) return s;
  for (uint32_t members = 1; members <= static_cast<uint32_t>(config_.ranks); ++members) {
    PortLayout ports[2];
    uint64_t bytes = 0;
    LayOutPorts(config_, members, ports, &bytes);
    std::vector<PortLayout> detached;
    LayOutDetached(config_, members, &detached, &bytes);
    region_bytes_ = std::max(region_bytes_, bytes);
  }
  const uint64_t user_at = region_bytes_ * config_.communicators;
  if (Status s = Heap::Create(rendezvous_.get(), config_.device, user_at + config_.user_bytes,
                              config_.use_ipc, config_.timeout_ms, &heap_);
      !s.ok()) {
    return s;
  }
  if (config_.user_bytes > 0) free_[user_at] = config_.user_bytes / kAlignment * kAlignment;

  // All that kernels and lists need is made now: later it might wait behind a kernel that waits for us.
  if (Status s = Cuda(PreloadCarriers(), "loading the kernels"); !s.ok()) return s;
  const size_t claims = HelpStream::kClaimBytes * config_.help_streams;
  const size_t counter_at = claims + sizeof(Seen) * (config_.help_streams + 1);
  cudaError_t e = cudaHostAlloc(reinterpret_cast<void**>(&page_), sizeof(Page), cudaHostAllocMapped);
  if (e == cudaSuccess && config_.help_streams > 0) {
    e = cudaHostAlloc(reinterpret_cast<void**>(&lists_), sizeof(HelpStream::Shared) * config_.help_streams,
                      cudaHostAllocMapped);
  }
  if (e == cudaSuccess) e = cudaMalloc(reinterpret_cast<void**>(&device_memory_), counter_at + 128);
  if (e == cudaSuccess) e = cudaMemset(device_memory_, 0, counter_at + 128);
  if (e == cudaSuccess) e = cudaStreamCreateWithFlags(&own_stream_, cudaStreamNonBlocking);
  if (e == cudaSuccess) e = cudaEventCreateWithFlags(&order_event_, cudaEventDisableTiming);
  if (e == cudaSuccess) e = cudaDeviceSynchronize();
  if (Status s = Cuda(e, "preparing the domain"); !s.ok()) return s;
  page_->stop = 0;
  if (lists_ != nullptr) {
    for (int i = 0; i < config_.help_streams; ++i) lists_[i].tail = lists_[i].keys = lists_[i].begun = 0;
  }
  seen_ = reinterpret_cast<Seen*>(device_memory_ + claims);
  helped_ = reinterpret_cast<uint32_t*>(device_memory_ + counter_at);
  if (config_.detached_tags > 0) {
    Status s = Worker::Create(config_.worker, config_.device, &page_->stop, [this] { return Health(); }, &worker_);
    if (!s.ok()) return s;
  }
  if (Status s = rendezvous_->Barrier(config_.timeout_ms); !s.ok()) return s;
  return rendezvous_->Watch([this](int rank) { Died(rank); });
}

Domain::~Domain() {
  // Memory of cudaIpc is gone with its owner, and others may not be done with it. A rank that is late or
  // dead is its own concern: nothing follows here that could fail.
  if (heap_ != nullptr && heap_->is_ipc() && Health().ok()) {
    [[maybe_unused]] const Status all_done = rendezvous_->Barrier(config_.timeout_ms);
  }
  rendezvous_.reset();  // ends the watch
  if (worker_ != nullptr) worker_->End();
  streams_.clear();
  if (order_event_ != nullptr) cudaEventDestroy(order_event_);
  if (own_stream_ != nullptr) cudaStreamDestroy(own_stream_);
  if (device_memory_ != nullptr) cudaFree(device_memory_);
  if (lists_ != nullptr) cudaFreeHost(lists_);
  if (page_ != nullptr) cudaFreeHost(page_);
}

void Domain::Died(int rank) {
  int alive = kAlive;
  dead_.compare_exchange_strong(alive, rank < 0 ? kAborted : rank);
  __atomic_store_n(&page_->stop, 1, __ATOMIC_RELEASE);
  if (worker_ != nullptr) worker_->Stopped();
}

void Domain::Abort() {
  rendezvous_->Alarm();
  Died(-1);
}

Status Domain::Health() const {
  const int dead = dead_.load();
  if (dead == kAlive) return Status::Ok();
  if (dead == kAborted) return Status::Unavailable("a rank has aborted");
  return Status::Unavailable("the process of rank " + std::to_string(dead) + " has ended");
}

Status Domain::Helped(uint32_t* channels) {
  cudaError_t e =
      cudaMemcpyAsync(channels, helped_, sizeof *channels, cudaMemcpyDeviceToHost, own_stream_);
  if (e == cudaSuccess) e = cudaStreamSynchronize(own_stream_);
  return Cuda(e, "reading how much was helped");
}

Status Domain::ListOf(cudaStream_t stream, HelpStream** list) {
  StreamState& state = streams_[stream];
  if (state.list == nullptr) {
    int used = 0;
    for (const auto& [unused, other] : streams_) used += other.list != nullptr;
    if (used >= config_.help_streams) {
      return Status::Unavailable("more streams than DomainConfig::help_streams have a list");
    }
    state.list = std::make_unique<HelpStream>(
        lists_ + used,
        reinterpret_cast<uint64_t*>(device_memory_ + static_cast<size_t>(used) * HelpStream::kClaimBytes),
        seen_ + used, &page_->stop, helped_);
  }
  *list = state.list.get();
  return Status::Ok();
}

Status Domain::SetExclusive(cudaStream_t stream, bool exclusive) {
  std::lock_guard<std::mutex> held(lock_);
  HelpStream* list = nullptr;
  if (Status s = ListOf(stream, &list); !s.ok()) return s;
  list->Interrupt();  // whatever was enqueued until now
  streams_[stream].exclusive = exclusive;
  return Status::Ok();
}

Status Domain::GroupStart() {
  std::lock_guard<std::mutex> held(lock_);
  if (!groups_.try_emplace(std::this_thread::get_id()).second) {
    return Status::InvalidArgument("groups do not nest");
  }
  return Status::Ok();
}

Status Domain::GroupEnd() {
  std::lock_guard<std::mutex> held(lock_);
  auto group = groups_.extract(std::this_thread::get_id());
  if (group.empty()) return Status::InvalidArgument("no group is open");
  return Enqueue(&group.mapped(), true);
}

Status Domain::Submit(const Work& work, const Touched& touched, cudaStream_t stream) {
  std::lock_guard<std::mutex> held(lock_);
  if (const auto group = groups_.find(std::this_thread::get_id()); group != groups_.end()) {
    group->second.push_back({work, touched, stream, {}, nullptr, false});
    return Status::Ok();
  }
  std::vector<Queued> one = {{work, touched, stream, {}, nullptr, false}};
  return Enqueue(&one, false);
}

Status Domain::Enqueue(std::vector<Queued>* operations, bool group) {
  if (Status s = Health(); !s.ok()) return s;
  std::vector<cudaStream_t> begun;  // streams that an operation of this group has been published on
  for (Queued& op : *operations) {
    op.help = {};
    op.help.stop = &page_->stop;
    op.help.seen = seen_ + config_.help_streams;
    Last& last = last_.try_emplace(op.work.order_key, Last{op.stream, nullptr, 0, true}).first->second;
    // Asked of the operation, not of its stream: what others have put there since must not be waited for,
    // it may wait for us.
    op.moved = last.stream != op.stream && !IsDone(last);
    op.after = last.stream;
    last = {op.stream, nullptr, 0, false};
    const auto known = streams_.find(op.stream);
    const bool exclusive = known != streams_.end() && known->second.exclusive;
    if (!exclusive && !group) continue;
    HelpStream* list = nullptr;
    if (Status s = ListOf(op.stream, &list); !s.ok()) return s;
    const bool opens = !exclusive && std::find(begun.begin(), begun.end(), op.stream) == begun.end();
    if (opens) begun.push_back(op.stream);
    if (list->Publish(op.work, op.touched, opens || op.moved, op.stream, &op.help)) {
      last.list = list;
      last.id = op.help.id;
    }
  }
  for (const Queued& op : *operations) {
    cudaError_t e = cudaSuccess;
    if (op.moved) {
      e = cudaEventRecord(order_event_, op.after);
      if (e == cudaSuccess) e = cudaStreamWaitEvent(op.stream, order_event_, 0);
    }
    if (e == cudaSuccess) e = LaunchCarrier(op.work, op.help, op.stream);
    if (Status s = Cuda(e, "launching an operation"); !s.ok()) return s;
  }
  for (const Queued& op : *operations) last_[op.work.order_key].launched = true;
  return Status::Ok();
}

bool Domain::IsDone(const Last& last) {
  if (!last.launched) return false;  // of the same group
  if (last.list != nullptr) return last.list->IsDone(last.id, last.stream);
  const cudaError_t e = cudaStreamQuery(last.stream);
  if (e == cudaErrorNotReady) {
    [[maybe_unused]] const cudaError_t recorded = cudaGetLastError();  // not an error of the job's
  }
  return e == cudaSuccess;
}

void* Domain::Allocate(size_t bytes) {
  const uint64_t wanted = RoundUp(std::max<uint64_t>(bytes, 1), kAlignment);
  std::lock_guard<std::mutex> held(lock_);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second < wanted) continue;
    const uint64_t at = it->first;
    const uint64_t left = it->second - wanted;
    free_.erase(it);
    if (left > 0) free_[at + wanted] = left;
    allocated_[at] = wanted;
    return heap_->base(config_.rank) + at;
  }
  return nullptr;
}

void Domain::Free(void* memory) {
  if (memory == nullptr) return;
  std::lock_guard<std::mutex> held(lock_);
  const auto it = allocated_.find(static_cast<uint64_t>(static_cast<char*>(memory) - heap_->base(config_.rank)));
  if (it == allocated_.end()) return;
  uint64_t at = it->first, bytes = it->second;
  allocated_.erase(it);
  const auto next = free_.lower_bound(at);
  if (next != free_.end() && at + bytes == next->first) {
    bytes += next->second;
    free_.erase(next);
  }
  if (const auto before = free_.lower_bound(at); before != free_.begin()) {
    const auto previous = std::prev(before);
    if (previous->first + previous->second == at) {
      previous->second += bytes;
      return;
    }
  }
  free_[at] = bytes;
}

}  // namespace gordian::runtime::cuda
