#include "runtime/cuda_api/process.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/service_thread.h"
#include "runtime/cpu/futex.h"
#include "runtime/cpu/process_life.h"

namespace gordian::runtime::cuda {
namespace {

// Streams whose operations may wait at the same time with a block for each channel, as many as
// NCCL's kernels find room for beside each other; and those that are helped along.
constexpr int kResidentStreams = 4;
constexpr int kHelpStreams = 32;
constexpr uint64_t kStageBytes = 32ull << 20;
constexpr uint64_t kDefaultHeapBytes = 64ull << 20;
constexpr int kFetchMs = 10000;
constexpr int64_t kLookNs = 100'000'000;

constexpr int kMostDevices = 64;

struct Devices {
  std::mutex mutex;
  std::atomic<int> count{0};
  std::atomic<Process*> only{nullptr};  // while there is one
  std::atomic<Process*> of[kMostDevices] = {};
};
Devices& TheDevices() {
  static Devices* devices = new Devices;  // threads outlive main
  return *devices;
}

// Once, for all devices: members in one process have one mapping of their page. It stays where it
// is.
bool RegisterPage(void* page) {
  static std::mutex* mutex = new std::mutex;
  static std::set<void*>* pages = new std::set<void*>;
  const std::lock_guard<std::mutex> lock(*mutex);
  if (pages->contains(page)) return true;
  const unsigned flags = cudaHostRegisterMapped | cudaHostRegisterPortable;
  if (cudaHostRegister(page, Meeting::kPageBytes, flags) != cudaSuccess) return false;
  pages->insert(page);
  return true;
}

// Members of communicators in this process, by the communicator's name.
struct Members {
  std::mutex mutex;
  std::multimap<std::string, std::weak_ptr<CommState>> of;
};
Members& TheMembers() {
  static Members* members = new Members;
  return *members;
}
void NoteMember(const std::shared_ptr<CommState>& comm) {
  Members& members = TheMembers();
  const std::lock_guard<std::mutex> lock(members.mutex);
  std::erase_if(members.of, [](const auto& known) { return known.second.expired(); });
  members.of.emplace(comm->name, comm);
}
std::vector<std::shared_ptr<CommState>> MembersHere(const std::string& name) {
  Members& members = TheMembers();
  const std::lock_guard<std::mutex> lock(members.mutex);
  std::vector<std::shared_ptr<CommState>> here;
  const auto [begin, end] = members.of.equal_range(name);
  for (auto at = begin; at != end; ++at) {
    if (auto comm = at->second.lock();
        comm != nullptr && comm->has_entered.load(std::memory_order_acquire)) {
      here.push_back(std::move(comm));
    }
  }
  return here;
}

grtResult_t ToResult(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return grtSuccess;
    case StatusCode::kInvalidArgument:
      return grtInvalidArgument;
    case StatusCode::kDeadline:
      return grtTimeout;
    case StatusCode::kUnavailable:
      return grtNotSupported;
    default:
      return grtUnhandledCudaError;
  }
}

}  // namespace

grtResult_t CommState::error() const {
  switch (__atomic_load_n(verdict().failed(), __ATOMIC_ACQUIRE)) {
    case kFailedMismatch:
      return grtMismatch;
    case kFailedAborted:
      return grtAborted;
    case kFailedPeer:
      return grtPeerDead;
    default:
      return grtSuccess;
  }
}

void CommState::Abort() {
  uint32_t* word = verdict().failed();
  uint32_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  while ((seen == kNoFailure || seen == kPeerGone) &&
         !__atomic_compare_exchange_n(word, &seen, kFailedAborted, false, __ATOMIC_ACQ_REL,
                                      __ATOMIC_ACQUIRE)) {
  }
  meeting->WakeWaiting();
}

namespace {

// Of a device; retained until the process ends, as the library's own use of it is. Null: it cannot
// be had.
CUcontext ContextOf(const Driver& driver, int device) {
  static std::array<std::atomic<CUcontext>, kMostDevices> contexts;
  CUcontext context = contexts[device].load(std::memory_order_acquire);
  if (context != nullptr || driver.retain_context(&context, device) != CUDA_SUCCESS) return context;
  contexts[device].store(context, std::memory_order_release);
  return context;
}

}  // namespace

// Not by cudaSetDevice: to set the device that was current before makes a context there, of half a
// GiB, if the thread has used none.
OnDevice::OnDevice(int device) {
  int current = -1;
  if (cudaGetDevice(&current) == cudaSuccess && current == device) return;
  std::string why;
  const Driver* driver = device >= 0 && device < kMostDevices ? LoadDriver(&why) : nullptr;
  if (driver == nullptr) return;
  const CUcontext context = ContextOf(*driver, device);
  if (context != nullptr && driver->push_context(context) == CUDA_SUCCESS)
    pop_ = driver->pop_context;
}

OnDevice::~OnDevice() {
  CUcontext popped = nullptr;
  if (pop_ != nullptr) pop_(&popped);
}

Process* Process::Of(cudaStream_t stream) {
  const Devices& devices = TheDevices();
  if (Process* only = devices.only.load(std::memory_order_acquire)) return only;
  if (devices.count.load(std::memory_order_acquire) == 0) return nullptr;
  int device = -1;
  const bool is_default =
      stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
  const cudaError_t e = is_default ? cudaGetDevice(&device) : cudaStreamGetDevice(stream, &device);
  if (e != cudaSuccess || device < 0 || device >= kMostDevices) {
    [[maybe_unused]] const cudaError_t cleared = cudaGetLastError();  // not an error of the job's
    return nullptr;
  }
  return devices.of[device].load(std::memory_order_acquire);
}

std::vector<Process*> Process::All() {
  std::vector<Process*> all;
  for (const std::atomic<Process*>& of : TheDevices().of) {
    if (Process* process = of.load(std::memory_order_acquire)) all.push_back(process);
  }
  return all;
}

grtResult_t Process::Of(int device, const grtConfig_t& config, Process** process) {
  if (device < 0 || device >= kMostDevices) return grtInvalidArgument;
  Devices& all = TheDevices();
  *process = all.of[device].load(std::memory_order_acquire);
  if (*process != nullptr) {
    (*process)->WantUserBytes(config.heap_bytes);
    return grtSuccess;
  }
  const std::lock_guard<std::mutex> lock(all.mutex);
  *process = all.of[device].load(std::memory_order_relaxed);
  if (*process != nullptr) return grtSuccess;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || device >= devices)
    return grtUnhandledCudaError;
  std::unique_ptr<Process> made(new Process(device, config));
  if (const grtResult_t result = made->Prepare(); result != grtSuccess) return result;
  *process = made.release();
  all.of[device].store(*process, std::memory_order_release);
  all.only.store(all.count.fetch_add(1) == 0 ? *process : nullptr, std::memory_order_release);
  return grtSuccess;
}

Process::Process(int device, const grtConfig_t& config)
    : device_(device), user_wanted_(config.heap_bytes) {
  config_.device = device;
  config_.help_streams = kHelpStreams;
  config_.resident_streams = kResidentStreams;
  config_.stage_bytes = kStageBytes;
  if (config.channels != 0)
    config_.bulk_channels = config_.line_channels = std::min(config.channels, kMaxChannels);
  if (config.blocks != 0) config_.worker.blocks = config.blocks;
  if (config.idle_quit_us != 0) config_.worker.idle_quit_us = config.idle_quit_us;
  if (config.stuck_quit_us != 0) config_.worker.stuck_quit_us = config.stuck_quit_us;
  config_.worker.waits_by_queue = config.join_kind == 1;
}

grtResult_t Process::Prepare() {
  const OnDevice on(device_);
  if (Status s = PieceHeap::Create(device_, &heap_); !s.ok()) return ToResult(s);
  // Threads of the library's own keep to the device: one that turned back to CUDA's default, device
  // 0, would make a context there, which takes 0.5 GiB. And no capture of the program's hinders
  // them.
  const auto enter = [device = device_] {
    cudaSetDevice(device);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    ExchangeCaptureMode(&mode);
  };
  PieceServer::Handlers handlers;
  handlers.enter = enter;
  handlers.find = [this](uint64_t offset, uint64_t* bytes) {
    return heap_->DescriptorOf(offset, bytes);
  };
  // Maps what other processes have registered. No kernel here writes there before they know that it
  // is mapped, and none when they take it back.
  handlers.take = [this](const std::string& owner, uint64_t offset, uint64_t bytes,
                         int descriptor) {
    MappedRange* const range = RangeOf(owner);
    return range != nullptr && offset >= kHeapRangeBytes &&
           range->MapDescriptor(offset, bytes, descriptor).ok();
  };
  handlers.leave = [this](const std::string& owner, uint64_t offset) {
    MappedRange* const range = RangeOf(owner);
    return range != nullptr && offset >= kHeapRangeBytes && range->Unmap(offset).ok();
  };
  if (Status s = PieceServer::Start(std::move(handlers), &server_); !s.ok()) return grtSystemError;
  exports_ =
      std::make_unique<Exports>(heap_->driver(), device_, heap_->range(), server_->name(), enter);
  if (Status s = Domain::CreateAlone(config_, &domain_); !s.ok()) return ToResult(s);
  if (cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) != cudaSuccess)
    return grtUnhandledCudaError;
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) return grtSystemError;
  watcher_ = MakeServiceThread("gordian-life", [this] { WatchLoop(); });
  return grtSuccess;
}

template <typename Body>
void Process::ForEachWatched(Body body) {
  const std::lock_guard<std::mutex> lock(watch_mutex_);
  std::erase_if(watched_, [&](const std::weak_ptr<CommState>& weak) {
    const std::shared_ptr<CommState> comm = weak.lock();
    if (comm != nullptr) body(*comm);
    return comm == nullptr;
  });
}

grtResult_t Process::TakeRegion(uint64_t bytes, uint64_t* offset) {
  for (auto at = leaving_.begin(); at != leaving_.end();) {
    if (at->meeting->AllAreOver() && at->meeting->IsCaptured()) {
      at = leaving_.erase(at);  // some member's graph may still write there
    } else if (at->meeting->AllAreOver()) {
      regions_.push_back(at->region);
      at = leaving_.erase(at);
    } else if (at->meeting->SomeNeverEnd()) {
      at = leaving_.erase(at);  // a peer's kernels may write there as long as they like
    } else {
      ++at;
    }
  }
  const auto fits = std::find_if(regions_.begin(), regions_.end(),
                                 [&](const Region& r) { return r.bytes == bytes; });
  if (fits == regions_.end()) {
    const Status s = heap_->Add(bytes, stream_, offset);
    return s.ok() ? grtSuccess : grtSystemError;
  }
  *offset = fits->at;
  regions_.erase(fits);
  cudaError_t e = cudaMemsetAsync(heap_->base() + *offset, 0, bytes, stream_);
  if (e == cudaSuccess) e = cudaStreamSynchronize(stream_);
  return e == cudaSuccess ? grtSuccess : grtUnhandledCudaError;
}

grtResult_t Process::Enter(const std::shared_ptr<CommState>& comm) {
  const OnDevice on(device_);
  NoteMember(comm);
  Attendee own = {};
  const uint64_t bytes = Communicator::RegionBytes(domain_->config(), comm->ranks);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const grtResult_t result = TakeRegion(bytes, &comm->region_at); result != grtSuccess)
      return result;
    own.user_at = user_at_;
    own.user_bytes = user_bytes_;
  }
  own.region_at = comm->region_at;
  // All that the choice of ways and the layout depend on.
  const DomainConfig& config = domain_->config();
  for (const uint64_t word :
       {bytes, uint64_t{config.bulk_channels}, uint64_t{config.line_channels},
        uint64_t{config.detached_channels}, uint64_t{comm->ranks}, uint64_t{GRT_VERSION}}) {
    own.agreement = internal::Mix(own.agreement ^ word);
  }
  server_->name().copy(own.server, sizeof own.server - 1);
  const grtResult_t result =
      Meeting::Come(comm->name + "-g", comm->ranks, comm->rank, own, &comm->meeting);
  if (result != grtSuccess) {
    const std::lock_guard<std::mutex> lock(mutex_);
    regions_.push_back({comm->region_at, bytes});
    return result;
  }
  // The devices of all members read and write the page. It stays registered: undoing that would
  // wait for the device.
  if (!RegisterPage(comm->meeting->page())) return grtUnhandledCudaError;
  comm->meeting->CloseDescriptor();
  const std::lock_guard<std::mutex> lock(mutex_);
  pages_.push_back(comm->meeting);
  comm->has_entered.store(true, std::memory_order_release);
  return grtSuccess;
}

MappedRange* Process::RangeOf(const std::string& server) {
  const std::lock_guard<std::mutex> lock(peers_mutex_);
  std::unique_ptr<MappedRange>& known = peers_[server];
  if (known == nullptr && !MappedRange::Reserve(heap_->driver(), device_, &known).ok())
    return nullptr;
  return known.get();
}

grtResult_t Process::Map(const Attendee& peer, uint64_t offset, MappedRange** range) {
  *range = RangeOf(peer.server);
  if (*range == nullptr) return grtNotSupported;
  if ((*range)->Has(offset)) return grtSuccess;
  uint64_t bytes = 0;
  int descriptor = -1;
  if (Status s = PieceServer::Fetch(peer.server, offset, kFetchMs, &bytes, &descriptor); !s.ok())
    return grtRemoteError;
  const Status mapped = (*range)->MapDescriptor(offset, bytes, descriptor);
  close(descriptor);
  return ToResult(mapped);
}

std::vector<Exports::Peer> Process::PeersOf(const CommState& comm) {
  std::vector<Exports::Peer> peers;
  for (uint32_t r = 0; r < comm.ranks; ++r) {
    const Attendee& member = comm.meeting->of(r);
    if (r == comm.rank) continue;
    Exports::Peer peer = {member.server, -1};
    for (const Process* process : All()) {
      if (process->server_->name() == member.server) peer.device = process->device_;
    }
    peers.push_back(std::move(peer));
  }
  return peers;
}

grtResult_t Process::Connect(const std::shared_ptr<CommState>& comm, int64_t deadline_ns) {
  if (const grtResult_t error = comm->error(); error != grtSuccess) return error;
  // A port's failures are noted in its communicator's meeting, so poll there.
  grtResult_t result = grtTimeout;
  while (result == grtTimeout) {
    const int64_t now_ns = NowNs();
    const int64_t look_ns =
        comm->of_port != nullptr ? std::min(deadline_ns, now_ns + kLookNs) : deadline_ns;
    result = comm->meeting->AwaitAll(look_ns);
    if (const grtResult_t error = comm->error(); result != grtSuccess && error != grtSuccess)
      return error;
    if (look_ns == deadline_ns) break;
  }
  if (result != grtSuccess) return result;
  if (const grtResult_t result = comm->process->ConnectOwn(comm); result != grtSuccess)
    return result;
  for (const std::shared_ptr<CommState>& other : MembersHere(comm->name)) {
    if (const grtResult_t result = other->process->ConnectOwn(other); result != grtSuccess)
      return result;
  }
  return grtSuccess;
}

grtResult_t Process::Reach(const Attendee& member, const std::vector<uint64_t>& offsets,
                           char** base) {
  if (member.pid == getpid() && member.pid_namespace == PidNamespace()) {
    for (Process* other : All()) {
      if (other->server_->name() != member.server) continue;
      if (other == this) return grtNotSupported;  // two ranks on one device
      for (const uint64_t offset : offsets) {
        if (Status s = other->heap_->ShareWith(device_, offset); !s.ok()) return ToResult(s);
      }
      *base = other->heap_->base();
      return grtSuccess;
    }
    return grtInternalError;
  }
  MappedRange* range = nullptr;
  for (const uint64_t offset : offsets) {
    if (const grtResult_t result = Map(member, offset, &range); result != grtSuccess) return result;
  }
  *base = range->base();
  return grtSuccess;
}

grtResult_t Process::ConnectOwn(const std::shared_ptr<CommState>& comm) {
  if (comm->ready.load(std::memory_order_acquire) != nullptr) return grtSuccess;
  Watch(comm);  // before its lock is held
  const std::lock_guard<std::mutex> once(comm->mutex);
  if (comm->communicator != nullptr) return grtSuccess;
  const OnDevice on(device_);
  const std::lock_guard<std::mutex> lock(mutex_);
  Communicator::Place place;
  place.rank = static_cast<int>(comm->rank);
  place.offers = true;
  for (uint32_t r = 0; r < comm->ranks; ++r) {
    const Attendee& member = comm->meeting->of(r);
    if (member.user_bytes == 0) place.offers = false;
  }
  for (uint32_t r = 0; r < comm->ranks; ++r) {
    const Attendee& member = comm->meeting->of(r);
    if (r == comm->rank) {
      place.regions.push_back(heap_->base() + comm->region_at);
      if (place.offers) {
        place.heap = heap_->base() + member.user_at;
        place.heap_bytes = member.user_bytes;
      }
      continue;
    }
    std::vector<uint64_t> pieces = {member.region_at};
    if (place.offers) pieces.push_back(member.user_at);
    char* base = nullptr;
    if (const grtResult_t result = Reach(member, pieces, &base); result != grtSuccess)
      return result;
    place.regions.push_back(base + member.region_at);
  }
  void* failed = nullptr;
  if (cudaHostGetDevicePointer(&failed, comm->verdict().page(), 0) != cudaSuccess)
    return grtUnhandledCudaError;
  place.failed = comm->verdict().failed();
  place.failed_on_device = reinterpret_cast<uint32_t*>(
      static_cast<char*>(failed) +
      (reinterpret_cast<char*>(place.failed) - static_cast<char*>(comm->verdict().page())));
  place.reach = comm->registrations.get();
  place.number = next_number_++;
  for (const char c : comm->name) {
    place.tag = static_cast<uint16_t>(internal::Mix(place.tag ^ static_cast<unsigned char>(c)));
  }
  if (Status s = Communicator::CreateAt(domain_.get(), place, &comm->communicator); !s.ok())
    return grtInternalError;
  comm->ready.store(comm->communicator.get(), std::memory_order_release);
  return grtSuccess;
}

void Process::Leave(const std::shared_ptr<CommState>& comm) {
  const uint64_t bytes = Communicator::RegionBytes(domain_->config(), comm->ranks);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!comm->aborted) leaving_.push_back({{comm->region_at, bytes}, comm->meeting});
  comm->meeting->Leave(!comm->aborted);
}

void Process::Forget(cudaStream_t stream) {
  bool captured = false;  // then it cannot be asked
  const bool idle = IsCaptured(stream, &captured) == cudaSuccess && !captured &&
                    cudaStreamQuery(stream) == cudaSuccess;
  if (!idle) {
    [[maybe_unused]] const cudaError_t cleared = cudaGetLastError();  // not an error of the job's
  }
  ForEachWatched([&](CommState& comm) {
    const std::lock_guard<std::mutex> lock(comm.mutex);
    // The end cannot be known, so do not use the region again.
    if (comm.streams.erase(stream) != 0 && !idle) comm.aborted = true;
  });
}

void Process::WantUserBytes(uint64_t bytes) {
  if (bytes == 0) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  user_wanted_ = bytes;  // of no effect once there is such memory
}

grtResult_t Process::Allocate(void** memory, size_t bytes) {
  const OnDevice on(device_);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (user_bytes_ == 0) {
    const uint64_t wanted =
        std::max<uint64_t>(user_wanted_ != 0 ? user_wanted_ : kDefaultHeapBytes, bytes);
    uint64_t at = 0;
    if (Status s = heap_->Add(wanted, stream_, &at); !s.ok()) return grtSystemError;
    user_at_ = at;
    user_bytes_ = wanted;
    domain_->GiveHeap(heap_->base() + at, wanted);
  }
  *memory = domain_->Allocate(bytes);
  return *memory != nullptr ? grtSuccess : grtSystemError;
}

void Process::Watch(const std::shared_ptr<CommState>& comm) {
  {
    const std::lock_guard<std::mutex> lock(watch_mutex_);
    watched_.push_back(comm);
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(wake_, &one, sizeof one);
}

// The watcher thread sleeps until a process ends or Watch adds a communicator. It marks each
// communicator of an ended process as failed, unless the member had left.
void Process::WatchLoop() {
  using Identity = std::pair<pid_t, uint64_t>;  // pid, start time: the kernel reuses pids
  const auto identity = [](const Attendee& member) {
    return Identity(member.pid, member.start_time);
  };
  std::map<Identity, int> open;  // pidfds; -1: it has ended, or cannot be watched
  std::set<Identity> ended;
  for (;;) {
    std::set<Identity> gone;
    ForEachWatched([&](const CommState& comm) {
      for (uint32_t r = 0; r < comm.ranks; ++r) {
        const Attendee& member = comm.meeting->of(r);
        if (member.pid == getpid() || member.pid_namespace != PidNamespace()) continue;
        const auto [at, is_new] = open.try_emplace(identity(member), -1);
        if (!is_new) {
          // The loop below has marked only the communicators that existed when the process ended.
          if (ended.contains(at->first) && !comm.meeting->HasLeft(r))
            Communicator::NotePeerGone(comm.verdict().failed());
          continue;
        }
        at->second = static_cast<int>(syscall(SYS_pidfd_open, member.pid, 0));
        const bool none = at->second < 0 && errno == ESRCH;
        const uint64_t started = StartTime(member.pid);
        if (none || (started != 0 && member.start_time != 0 && started != member.start_time))
          gone.insert(at->first);
      }
    });
    if (gone.empty()) {
      std::vector<pollfd> fds = {{wake_, POLLIN, 0}};
      std::vector<Identity> of;
      for (const auto& [who, fd] : open) {
        if (fd < 0) continue;
        fds.push_back({fd, POLLIN, 0});
        of.push_back(who);
      }
      if (poll(fds.data(), fds.size(), -1) <= 0) continue;
      uint64_t count = 0;
      if (fds[0].revents != 0 && read(wake_, &count, sizeof count) < 0) continue;
      for (size_t i = 0; i < of.size(); ++i) {
        if (fds[i + 1].revents != 0) gone.insert(of[i]);
      }
    }
    for (const Identity& who : gone) {
      if (open[who] >= 0) close(open[who]);
      open[who] = -1;
      ended.insert(who);
    }
    ForEachWatched([&](const CommState& comm) {
      for (uint32_t r = 0; r < comm.ranks; ++r) {
        if (gone.contains(identity(comm.meeting->of(r))) && !comm.meeting->HasLeft(r)) {
          Communicator::NotePeerGone(comm.verdict().failed());
        }
      }
    });
  }
}

}  // namespace gordian::runtime::cuda
