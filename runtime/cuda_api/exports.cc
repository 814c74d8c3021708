#include "runtime/cuda_api/exports.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "common/service_thread.h"
#include "runtime/cuda_api/piece_server.h"

namespace gordian::runtime::cuda {
namespace {

// Between two looks at whether operations are over, which devices do not announce.
constexpr auto kLook = std::chrono::milliseconds(5);
constexpr int kTakeBackMs = 10000;

}  // namespace

Exports::Exports(const Driver* driver, int device, MappedRange* range, std::string server,
                 std::function<void()> enter)
    : driver_(driver),
      device_(device),
      range_(range),
      server_(std::move(server)),
      enter_(std::move(enter)) {
  free_[kHeapRangeBytes] = kRangeBytes - kHeapRangeBytes;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  size_t unit = 0;
  if (driver_->granularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) ==
      CUDA_SUCCESS)
    unit_ = unit;
}

Exports::~Exports() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool Exports::TakeOffsets(uint64_t bytes, uint64_t* offset) {
  for (auto at = free_.begin(); at != free_.end(); ++at) {
    if (at->second < bytes) continue;
    *offset = at->first;
    const uint64_t left = at->second - bytes;
    free_.erase(at);
    if (left != 0) free_[*offset + bytes] = left;
    return true;
  }
  return false;
}

void Exports::GiveOffsets(uint64_t offset, uint64_t bytes) {
  auto at = free_.emplace(offset, bytes).first;
  if (const auto next = std::next(at);
      next != free_.end() && at->first + at->second == next->first) {
    at->second += next->second;
    free_.erase(next);
  }
  if (at == free_.begin()) return;
  if (const auto before = std::prev(at); before->first + before->second == at->first) {
    before->second += at->second;
    free_.erase(at);
  }
}

bool Exports::Find(const std::vector<Allocation>& allocations, std::shared_ptr<Export>* found,
                   bool* is_new) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // Equal addresses are not enough: the program may have freed the memory and mapped other memory
  // there.
  const auto known = std::find_if(exports_.begin(), exports_.end(),
                                  [&](const auto& e) { return e->allocations() == allocations; });
  *is_new = known == exports_.end();
  if (!*is_new) {
    *found = *known;
    return true;
  }
  auto made = std::make_shared<Export>();
  const uint64_t bytes =
      allocations.back().begin + allocations.back().bytes - allocations.front().begin;
  const bool aligned =
      unit_ != 0 && std::all_of(allocations.begin(), allocations.end(), [&](const Allocation& a) {
        return (a.begin - allocations.front().begin) % unit_ == 0 && a.bytes % unit_ == 0;
      });
  if (!aligned || !TakeOffsets(bytes, &made->offset_)) return false;
  made->allocations_ = allocations;
  exports_.push_back(made);
  if (!thread_.joinable()) thread_ = MakeServiceThread("gordian-exports", [this] { Serve(); });
  *found = std::move(made);
  return true;
}

grtResult_t Exports::Map(Export& e, const Peer& peer, int timeout_ms) {
  const auto offset_of = [&](const Allocation& a) { return e.offset_ + (a.begin - e.begin()); };
  if (peer.device >= 0) {
    // At this device's own addresses, where another device of the process looks for them.
    if (e.devices_.contains(peer.device)) return grtSuccess;
    for (const Allocation& a : e.allocations_) {
      if (!e.mapped_here_ && !range_->Map(offset_of(a), a.bytes, a.handle).ok())
        return grtNotSupported;
    }
    e.mapped_here_ = true;
    for (const Allocation& a : e.allocations_) {
      if (!range_->Share(offset_of(a), a.bytes, peer.device).ok()) return grtNotSupported;
    }
    e.devices_.insert(peer.device);
    return grtSuccess;
  }
  if (e.servers_.contains(peer.server)) return grtSuccess;
  // Do not try again: the peer may still finish the half-done request.
  if (!e.asked_.insert(peer.server).second) return grtNotSupported;
  for (const Allocation& a : e.allocations_) {
    int descriptor = -1;
    if (driver_->export_handle(&descriptor, a.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                               0) != CUDA_SUCCESS) {
      return grtNotSupported;
    }
    const Status given =
        PieceServer::Give(peer.server, server_, offset_of(a), a.bytes, descriptor, timeout_ms);
    close(descriptor);
    if (!given.ok()) return grtNotSupported;
  }
  e.servers_.insert(peer.server);
  return grtSuccess;
}

grtResult_t Exports::Make(const void* memory, uint64_t bytes, const std::vector<Peer>& peers,
                          int timeout_ms, std::shared_ptr<Export>* made) {
  std::vector<Allocation> allocations;
  if (const Status s = AllocationsBehind(*driver_, device_, memory, bytes, &allocations); !s.ok()) {
    return s.code() == StatusCode::kInvalidArgument ? grtInvalidArgument : grtNotSupported;
  }
  std::shared_ptr<Export> e;
  bool is_new = false;
  const bool found = Find(allocations, &e, &is_new);
  if (!found || !is_new) Release(*driver_, allocations);
  if (!found) return grtNotSupported;
  grtResult_t result = grtSuccess;
  {
    const std::lock_guard<std::mutex> mapping(e->mapping_);
    for (const Peer& peer : peers) {
      result = Map(*e, peer, timeout_ms);
      if (result != grtSuccess) break;
    }
  }
  if (result == grtSuccess) {
    *made = std::move(e);
    return grtSuccess;
  }
  e.reset();
  Look();
  return result;
}

void Exports::EndWhen(std::function<Over()> over, std::shared_ptr<Export> held) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    endings_.push_back({std::move(over), std::move(held)});
  }
  changed_.notify_all();
}

void Exports::Look() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    looks_ = true;
  }
  changed_.notify_all();
}

bool Exports::AwaitSettled(int timeout_ms) {
  std::unique_lock<std::mutex> lock(mutex_);
  return settled_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                           [&] { return !looks_ && !busy_; });
}

size_t Exports::count() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return exports_.size();
}

// Withdraws memory that is not held and no longer in the table.
void Exports::Withdraw(Export& e) {
  bool all = true;
  for (const Allocation& a : e.allocations_) {
    const uint64_t offset = e.offset_ + (a.begin - e.begin());
    for (const std::string& server : e.asked_) {
      // A process that has ended has unmapped everything.
      const Status left = PieceServer::TakeBack(server, server_, offset, kTakeBackMs);
      if (!left.ok() && left.code() == StatusCode::kDeadline) all = false;
    }
    if (range_->Has(offset) && !range_->Unmap(offset).ok()) all = false;
  }
  Release(*driver_, e.allocations_);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (all) GiveOffsets(e.offset_, e.end() - e.begin());
}

void Exports::Serve() {
  enter_();
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    const auto wanted = [&] { return stops_ || looks_; };
    if (endings_.empty()) {
      changed_.wait(lock, [&] { return wanted() || !endings_.empty(); });
    } else {
      changed_.wait_for(lock, kLook, wanted);
    }
    if (stops_) return;
    looks_ = false;
    busy_ = true;
    std::vector<Ending> endings = std::exchange(endings_, {});
    lock.unlock();
    std::vector<Ending> left;
    std::vector<std::shared_ptr<Export>> never;
    for (Ending& ending : endings) {
      const Over over = ending.over();
      if (over == Over::kNotYet) left.push_back(std::move(ending));
      if (over == Over::kNever) never.push_back(std::move(ending.held));
    }
    endings.clear();  // those that are over
    lock.lock();
    std::move(left.begin(), left.end(), std::back_inserter(endings_));
    std::move(never.begin(), never.end(), std::back_inserter(never_));
    // It leaves the table under the lock, so no other thread finds it after that.
    const auto held =
        std::stable_partition(exports_.begin(), exports_.end(),
                              [](const std::shared_ptr<Export>& e) { return e.use_count() > 1; });
    std::vector<std::shared_ptr<Export>> ended(std::make_move_iterator(held),
                                               std::make_move_iterator(exports_.end()));
    exports_.erase(held, exports_.end());
    lock.unlock();
    for (const std::shared_ptr<Export>& e : ended) Withdraw(*e);
    lock.lock();
    busy_ = false;
    settled_.notify_all();
  }
}

}  // namespace gordian::runtime::cuda
