#include "runtime/cuda/domain/domain.h"

#include <string.h>

#include <algorithm>
#include <utility>

#include "runtime/cuda/domain/communicator.h"
#include "runtime/cuda/driver/cuda_calls.h"
#include "runtime/cuda/list/carrier.h"
#include "runtime/cuda/list/group.h"
#include "runtime/cuda/list/mark.h"

namespace gordian::runtime::cuda {
namespace {

constexpr uint64_t kAlignment = 256;
// Channels are the same on all ranks, whatever their devices are: those of a device with room for
// so many blocks, two on each of 132 multiprocessors. A smaller one gives a kernel fewer blocks
// than channels.
constexpr uint32_t kUsualBlocks = 264;
// A group's kernel may have as many blocks as the kernels of so many operations.
constexpr uint32_t kGroupKernels = 2;

uint32_t OfWorker(const DomainConfig& config) {
  return config.detached_tags > 0 ? config.worker.blocks : 0;
}

}  // namespace

uint32_t BlocksOfGroup(const DomainConfig& config) {
  const uint32_t all = kUsualBlocks - OfWorker(config),
                 each = all / static_cast<uint32_t>(config.resident_streams);
  return std::min(kGroupKernels * each, Places<cudaStream_t>(all).most());
}

Status Domain::Check() {
  const DomainConfig& config = config_;
  if (config.ranks < 1 || config.ranks > static_cast<int>(kMaxRanks) || config.communicators < 1 ||
      config.bulk_channels < 1 || config.bulk_channels > kMaxChannels || config.line_channels < 1 ||
      config.line_channels > kMaxChannels || config.help_streams < 0 ||
      config.resident_streams < 1 || config.detached_tags < 0 || config.worker.blocks < 1 ||
      config.detached_channels < 1 || config.detached_channels > kMaxChannels ||
      config.resident_streams + config.worker.blocks > kUsualBlocks) {
    return Status::InvalidArgument("the domain's configuration makes no sense");
  }
  const uint32_t most =
      (kUsualBlocks - OfWorker(config)) / static_cast<uint32_t>(config.resident_streams);
  config_.bulk_channels = std::min(config.bulk_channels, most);
  config_.line_channels = std::min(config.line_channels, most);
  return Status::Ok();
}

Status Domain::CreateAlone(const DomainConfig& config, std::unique_ptr<Domain>* domain) {
  std::unique_ptr<Domain> d(new Domain(config));
  if (Status s = d->Check(); !s.ok()) return s;
  if (Status s = Cuda(cudaSetDevice(config.device), "selecting the device"); !s.ok()) return s;
  if (Status s = d->PrepareDevice(); !s.ok()) return s;
  *domain = std::move(d);
  return Status::Ok();
}

void Domain::GiveHeap(char* heap, uint64_t bytes) {
  std::lock_guard<std::mutex> held(lock_);
  own_heap_ = heap;
  free_[0] = bytes / kAlignment * kAlignment;
}

Status Domain::Create(const DomainConfig& config, std::unique_ptr<Domain>* domain) {
  std::unique_ptr<Domain> d(new Domain(config));
  if (Status s = d->Check(); !s.ok()) return s;
  if (Status s = Rendezvous::Join(config.name, config.rank, config.ranks, config.timeout_ms,
                                  &d->rendezvous_);
      !s.ok()) {
    return s;
  }
  if (Status s = d->PrepareHeap(); !s.ok()) return s;
  if (Status s = d->PrepareDevice(); !s.ok()) return s;
  if (Status s = d->rendezvous_->Barrier(config.timeout_ms); !s.ok()) return s;
  Domain* const self = d.get();
  if (Status s = d->rendezvous_->Watch([self](int rank) { self->Died(rank); }); !s.ok()) return s;
  *domain = std::move(d);
  return Status::Ok();
}

Status Domain::PrepareHeap() {
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
  own_heap_ = heap_->base(config_.rank);
  if (config_.user_bytes > 0) free_[user_at] = config_.user_bytes / kAlignment * kAlignment;
  return Status::Ok();
}

Status Domain::CountPlaces() {
  int multiprocessors = 0;
  if (Status s = Cuda(
          cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, config_.device),
          "asking a device for its multiprocessors");
      !s.ok()) {
    return s;
  }
  const auto streams = static_cast<uint32_t>(config_.resident_streams);
  const uint32_t all = PlacesOf(static_cast<uint32_t>(multiprocessors)),
                 left = all - std::min(all, OfWorker(config_));
  if (left < 2 * streams) {
    return Status::Unavailable("device " + std::to_string(config_.device) + " gives this process " +
                               std::to_string(multiprocessors) +
                               " multiprocessors, too few for kernels of " +
                               std::to_string(streams) + " streams beside the worker's");
  }
  places_.emplace(left);
  most_captured_ = left / streams;
  return Status::Ok();
}

Status Domain::PrepareDevice() {
  if (Status s = CountPlaces(); !s.ok()) return s;
  // Make now all that kernels and lists need: later an allocation might wait behind a kernel that
  // waits for this thread.
  const size_t bytes = sizeof(DeviceMemory) + sizeof(HelpMemory) * config_.help_streams;
  const size_t words = sizeof(Word) * (config_.communicators + 1);
  cudaError_t e = cudaHostAlloc(reinterpret_cast<void**>(&stop_), words, cudaHostAllocMapped);
  if (e == cudaSuccess && config_.help_streams > 0) {
    e = cudaHostAlloc(reinterpret_cast<void**>(&lists_), sizeof(HelpShared) * config_.help_streams,
                      cudaHostAllocMapped);
  }
  if (e == cudaSuccess) e = cudaMalloc(reinterpret_cast<void**>(&device_memory_), bytes);
  // Use a stream of its own: the program's kernels may wait for what the program does after this
  // call.
  if (e == cudaSuccess) e = cudaStreamCreateWithFlags(&own_stream_, cudaStreamNonBlocking);
  if (e == cudaSuccess) e = cudaMemsetAsync(device_memory_, 0, bytes, own_stream_);
  if (e == cudaSuccess) e = PreloadCarriers(own_stream_);
  if (e == cudaSuccess) e = PreloadGroups(own_stream_);
  if (e == cudaSuccess) e = PreloadMarks(own_stream_);
  if (e == cudaSuccess) e = cudaEventCreateWithFlags(&order_event_, cudaEventDisableTiming);
  if (e == cudaSuccess) e = cudaStreamSynchronize(own_stream_);
  if (Status s = Cuda(e, "preparing the domain"); !s.ok()) return s;
  memset(stop_, 0, words);
  failed_ = stop_ + 1;
  if (lists_ != nullptr) {
    for (int i = 0; i < config_.help_streams; ++i) lists_[i].tail = lists_[i].begun = 0;
  }
  if (config_.detached_tags > 0) {
    Status s = Worker::Create(
        config_.worker, config_.device, &stop_->word, [this] { return Health(); }, &worker_);
    if (!s.ok()) return s;
  }
  return Status::Ok();
}

Domain::~Domain() {
  // Memory of cudaIpc ends with its owner, and other ranks may still use it, so wait for them. If a
  // rank is late or dead, go on: nothing follows here that could fail.
  if (heap_ != nullptr && heap_->is_ipc() && Health().ok()) {
    [[maybe_unused]] const Status all_done = rendezvous_->Barrier(config_.timeout_ms);
  }
  rendezvous_.reset();  // ends the watch
  if (worker_ != nullptr) worker_->End();
  streams_.clear();
  spare_lists_.clear();
  ended_lists_.clear();
  for (cudaEvent_t event : behind_) cudaEventDestroy(event);
  for (char* room : rooms_) cudaFree(room);
  if (order_event_ != nullptr) cudaEventDestroy(order_event_);
  if (own_stream_ != nullptr) cudaStreamDestroy(own_stream_);
  if (device_memory_ != nullptr) cudaFree(device_memory_);
  if (lists_ != nullptr) cudaFreeHost(lists_);
  if (stop_ != nullptr) cudaFreeHost(stop_);
}

void Domain::Died(int rank) {
  int alive = kAlive;
  dead_.compare_exchange_strong(alive, rank < 0 ? kAborted : rank);
  __atomic_store_n(&stop_->word, 1, __ATOMIC_RELEASE);
  if (worker_ != nullptr) worker_->Stopped();
}

void Domain::Abort() {
  if (rendezvous_ != nullptr) rendezvous_->Alarm();
  Died(-1);
}

Status Domain::Health() const {
  const int dead = dead_.load();
  if (dead == kAlive) return Status::Ok();
  if (dead == kAborted) return Status::Unavailable("a rank has aborted");
  return Status::Unavailable("the process of rank " + std::to_string(dead) + " has ended");
}

Status Domain::Helped(HelpCounts* counts) {
  cudaError_t e = cudaMemcpyAsync(counts, &device_memory_->counts, sizeof *counts,
                                  cudaMemcpyDeviceToHost, own_stream_);
  if (e == cudaSuccess) e = cudaStreamSynchronize(own_stream_);
  return Cuda(e, "reading how much was helped");
}

Status Domain::ListOf(cudaStream_t stream, HelpStream** list) {
  StreamState& state = streams_[stream];
  if (state.list == nullptr) {
    if (!spare_lists_.empty()) {
      state.list = std::move(spare_lists_.back());
      spare_lists_.pop_back();
      *list = state.list.get();
      return Status::Ok();
    }
    if (lists_made_ >= config_.help_streams) {
      return Status::Unavailable("more streams than DomainConfig::help_streams have a list");
    }
    // Allocating does not wait for kernels; freeing would.
    char* room = nullptr;
    if (Status s = Cuda(cudaMalloc(reinterpret_cast<void**>(&room), config_.renamed_bytes),
                        "making room for outputs");
        !s.ok()) {
      return s;
    }
    rooms_.push_back(room);
    const int used = lists_made_++;
    state.list = std::make_unique<HelpStream>(lists_ + used, device_memory_->lists,
                                              static_cast<uint32_t>(used), &stop_->word,
                                              &device_memory_->counts, room, config_.renamed_bytes);
  }
  *list = state.list.get();
  return Status::Ok();
}

Status Domain::SetExclusive(cudaStream_t stream, bool exclusive) {
  {
    std::lock_guard<std::mutex> streams(streams_lock_);
    const auto known = streams_.find(stream);
    if (known != streams_.end() && known->second.exclusive && exclusive) return Status::Ok();
  }
  std::lock_guard<std::mutex> held(lock_);
  std::lock_guard<std::mutex> streams(streams_lock_);
  HelpStream* list = nullptr;
  if (Status s = ListOf(stream, &list); !s.ok()) return s;
  if (streams_[stream].exclusive == exclusive)
    return Status::Ok();  // nothing changes: the list stays valid
  list->Interrupt();      // the stream may hold other work
  streams_[stream].exclusive = exclusive;
  return Status::Ok();
}

void Domain::Foreign(cudaStream_t stream) {
  std::lock_guard<std::mutex> streams(streams_lock_);
  const auto at = streams_.find(stream);
  if (at != streams_.end() && at->second.exclusive) at->second.list->Interrupt();
}

void Domain::ForeignAll() {
  std::lock_guard<std::mutex> streams(streams_lock_);
  for (auto& [handle, state] : streams_) {
    if (state.exclusive) state.list->Interrupt();
  }
}

HelpStream* Domain::ExclusiveList(cudaStream_t stream) {
  std::lock_guard<std::mutex> streams(streams_lock_);
  const auto at = streams_.find(stream);
  return at != streams_.end() && at->second.exclusive ? at->second.list.get() : nullptr;
}

bool Domain::Here(cudaStream_t stream, PointOfList* point) {
  std::lock_guard<std::mutex> streams(streams_lock_);
  const auto at = streams_.find(stream);
  return at != streams_.end() && at->second.exclusive && at->second.list->Here(point);
}

Status Domain::BeforeWait(cudaStream_t stream, const PointOfList& point, bool* waits) {
  *waits = false;
  std::lock_guard<std::mutex> held(lock_);
  HelpStream* const list = ExclusiveList(stream);
  if (list == nullptr || HelpStream::IsPast(point)) return Status::Ok();
  *waits = true;
  HelpList help;
  if (!list->Mark(&help)) return Status::Ok();
  return Cuda(LaunchMark(help, stream), "marking a stream before it waits");
}

void Domain::AfterWait(cudaStream_t stream, const PointOfList& point) {
  std::lock_guard<std::mutex> held(lock_);
  if (HelpStream* const list = ExclusiveList(stream)) list->Awaited(point);
}

Status Domain::Forget(cudaStream_t stream) {
  std::lock_guard<std::mutex> held(lock_);
  bool captured = false;  // then it cannot be queried
  if (IsCaptured(stream, &captured) != cudaSuccess) captured = true;
  for (auto& [number, order] : orders_) order->Forget(stream);
  cudaEvent_t behind = nullptr;
  for (auto& [key, last] : last_) {
    if (last.stream != stream || last.gone) continue;
    if (captured) {
      GraphOrder* order = nullptr;
      if (Status s = OrderOf(key / kKeysOfCommunicator, &order); !s.ok()) return s;
    }
    if (orders_.contains(key / kKeysOfCommunicator)) {  // its order knows what is unfinished
      last.gone = true;
      last.list = nullptr;
      continue;
    }
    if (!IsDone(last)) {
      cudaError_t e = cudaSuccess;
      if (behind == nullptr) {
        e = cudaEventCreateWithFlags(&behind, cudaEventDisableTiming);
        if (e == cudaSuccess) behind_.push_back(behind);
        if (e == cudaSuccess) e = cudaEventRecord(behind, stream);
      }
      if (Status s = Cuda(e, "marking the end of a stream"); !s.ok()) return s;
      last.behind = behind;
    }
    last.gone = true;
    last.list = nullptr;
  }
  std::lock_guard<std::mutex> streams(streams_lock_);
  const auto at = streams_.find(stream);
  if (at == streams_.end()) return Status::Ok();
  // Kernels that have not ended read the list.
  auto& lists = behind == nullptr && !captured && IsIdle(stream) ? spare_lists_ : ended_lists_;
  if (at->second.list != nullptr) {
    at->second.list->Forget();
    lists.push_back(std::move(at->second.list));
  }
  streams_.erase(at);
  return Status::Ok();
}

Status Domain::GroupStart() {
  std::lock_guard<std::mutex> held(lock_);
  if (!groups_.try_emplace(std::this_thread::get_id()).second) {
    return Status::InvalidArgument("groups do not nest");
  }
  return Status::Ok();
}

void Domain::GroupCancel() {
  std::lock_guard<std::mutex> held(lock_);
  groups_.erase(std::this_thread::get_id());
}

Status Domain::GroupEnd() {
  std::lock_guard<std::mutex> held(lock_);
  auto group = groups_.extract(std::this_thread::get_id());
  if (group.empty()) return Status::InvalidArgument("no group is open");
  const auto captured = std::count_if(group.mapped().begin(), group.mapped().end(),
                                      [](const Queued& op) { return op.captured; });
  if (captured == 0) return Enqueue(&group.mapped(), true);
  if (static_cast<size_t>(captured) != group.mapped().size()) {
    return Status::InvalidArgument("some streams of a group are captured, and some are not");
  }
  return EnqueueCaptured(group.mapped());
}

Status Domain::Submit(const Work& work, const Touched& touched, cudaStream_t stream,
                      bool* captured) {
  if (Status s = Cuda(IsCaptured(stream, captured), "asking a stream whether it is captured");
      !s.ok())
    return s;
  std::lock_guard<std::mutex> held(lock_);
  if (const auto group = groups_.find(std::this_thread::get_id()); group != groups_.end()) {
    group->second.emplace_back(work, touched, stream, *captured);
    return Status::Ok();
  }
  std::vector<Queued> one = {Queued(work, touched, stream, *captured)};
  return *captured ? EnqueueCaptured(one) : Enqueue(&one, false);
}

Status Domain::Enqueue(std::vector<Queued>* operations, bool group) {
  if (Status s = Health(); !s.ok()) return s;
  for (Queued& op : *operations) {  // nothing has changed if one of them cannot be had
    std::lock_guard<std::mutex> streams(streams_lock_);
    const auto known = streams_.find(op.stream);
    op.exclusive = known != streams_.end() && known->second.exclusive;
    // A group's operations help each other along a stream. A single one needs no list, and lists
    // are few.
    const bool several =
        group && std::count_if(operations->begin(), operations->end(),
                               [&](const Queued& other) { return other.stream == op.stream; }) > 1;
    if (!op.exclusive && !several) continue;
    if (Status s = ListOf(op.stream, &op.list); !s.ok()) return s;
  }
  if (group) InRounds(operations);
  for (Queued& op : *operations) {
    const uint32_t number = op.work.order_key / kKeysOfCommunicator;
    const auto [at, is_first] = last_.try_emplace(op.work.order_key);
    Last& last = at->second;
    if (is_first) last.work = op.work;
    const bool elsewhere = !is_first && (last.stream != op.stream || last.gone);
    if (!orders_.empty() || (elsewhere && !last.gone)) {
      const auto known = orders_.find(number);
      if (known != orders_.end()) op.order = known->second.get();
      // A stream that is being captured cannot be queried, nor can an event be recorded on it.
      bool captured = false;
      if (op.order == nullptr && elsewhere && !last.gone &&
          (IsCaptured(last.stream, &captured) != cudaSuccess || captured)) {
        if (Status s = OrderOf(number, &op.order); !s.ok()) return s;
      }
    }
    op.moved = false;
    if (op.order != nullptr) op.waits = op.order->Before(op.stream);
    // Ask for the operation's end, not for its stream's: later work of the program on the stream
    // may wait for this rank, so this must not wait for it. `order` knows what was enqueued before
    // this group.
    if (elsewhere && (op.order == nullptr || !last.launched)) op.moved = !IsDone(last);
    op.amid = op.moved && !last.launched;
    op.after = last.stream;
    op.behind = last.behind;
    last.stream = op.stream;
    last.list = nullptr;
    last.launched = last.gone = false;
    last.behind = nullptr;
  }
  Publish(operations);
  // If one of a group's operations must wait, all of the group's operations on that stream do: they
  // wait for each other.
  for (const Queued& op : *operations) {
    if (op.amid) continue;
    if (Status s = Cuda(AwaitBefore(op), "ordering an operation behind others"); !s.ok()) return s;
  }
  std::map<GraphOrder*, std::vector<cudaStream_t>> ordered;
  for (size_t begin = 0, end = 0; begin < operations->size(); begin = end) {
    end = Together(*operations, begin);
    const Queued& first = (*operations)[begin];
    cudaError_t e = first.amid ? AwaitBefore(first) : cudaSuccess;
    uint32_t places = 0;
    if (e == cudaSuccess) e = LaunchOne(*operations, begin, end, &places);
    if (Status s = Cuda(e, "launching an operation"); !s.ok()) return s;
    for (size_t i = begin; i < end; ++i) Launched((*operations)[i], i == begin ? places : 0);
    if (first.order != nullptr) ordered[first.order].push_back(first.stream);
  }
  for (const Queued& op : *operations) {
    if (op.list != nullptr) op.list->Launched();
  }
  for (const auto& [order, streams] : ordered) {
    if (Status s = Cuda(order->Called(streams), "marking the end of operations"); !s.ok()) return s;
  }
  return Status::Ok();
}

cudaError_t Domain::LaunchOne(const std::vector<Queued>& operations, size_t begin, size_t end,
                              uint32_t* places) {
  const Queued& first = operations[begin];
  if (end - begin == 1) {
    *places = PlacesOn(first.stream, first.work.channels);
    return LaunchCarrier(first.work, first.help, *places, true, first.stream);
  }
  std::vector<const Work*> works;
  std::vector<HelpList> entries;
  for (size_t i = begin; i < end; ++i) {
    works.push_back(&operations[i].work);
    entries.push_back(operations[i].help);
  }
  const HelpList kernel = first.list->Join(entries);
  *places = PlacesOn(first.stream, std::min(PlacesForSeveral(works), BlocksOfGroup(config_)));
  return LaunchSeveral(works, entries, kernel, *places, first.stream);
}

cudaError_t Domain::AwaitBefore(const Queued& op) {
  cudaError_t e = cudaSuccess;
  for (const cudaEvent_t event : {op.waits.replayed, op.waits.called}) {
    if (event != nullptr && e == cudaSuccess) e = cudaStreamWaitEvent(op.stream, event, 0);
  }
  if (!op.moved || e != cudaSuccess) return e;
  if (op.behind == nullptr) e = cudaEventRecord(order_event_, op.after);
  return e == cudaSuccess
             ? cudaStreamWaitEvent(op.stream, op.behind != nullptr ? op.behind : order_event_, 0)
             : e;
}

uint32_t Domain::PlacesOn(cudaStream_t stream, uint32_t wanted) {
  if (wanted <= 1) return wanted;  // every kernel gets at least one
  return places_->Grant(stream, wanted, [this](const auto& note) {
    for (auto& [key, last] : last_) {
      if (last.places == 0) continue;
      bool captured = false;  // the driver refuses queries of a captured stream
      if (!last.gone) (void)IsCaptured(last.stream, &captured);
      if (!captured && last.launched && IsDone(last)) {
        last.places = 0;
      } else {
        note(last.stream, last.places);
      }
    }
  });
}

void Domain::Launched(const Queued& op, uint32_t places) {
  Last& last = last_[op.work.order_key];
  last.places = std::max(last.places, places);
  last.launched = true;
  ++last.by_channels[op.work.channels];
}

bool Domain::IsDone(const Last& last) {
  if (!last.launched) return false;  // of the same group
  if (last.gone) return last.behind == nullptr || IsThrough(cudaEventQuery(last.behind));
  if (last.list != nullptr) return last.list->IsDone(last.id, last.stream);
  return IsIdle(last.stream);
}

HelpList Domain::Alone() const {
  HelpList help{};
  help.stop = &stop_->word;
  help.seen = &device_memory_->alone;
  return help;
}

bool Domain::IsIdle(cudaStream_t stream) { return IsThrough(cudaStreamQuery(stream)); }

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
    return own_heap_ + at;
  }
  return nullptr;
}

void Domain::Free(void* memory) {
  if (memory == nullptr) return;
  std::lock_guard<std::mutex> held(lock_);
  const auto it = allocated_.find(static_cast<uint64_t>(static_cast<char*>(memory) - own_heap_));
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
