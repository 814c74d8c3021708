#include "emulator/engine/engine_impl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

#include <cstdlib>
#include <utility>

#include "emulator/engine/graph/graphs_impl.h"
#include "emulator/engine/process/futex.h"
#include "emulator/engine/process/of_this_thread.h"

namespace gordian::emu {

ThreadState& CurrentThread() { return OfThisThread<ThreadState>(); }

ThreadState::~ThreadState() {
  if (id != 0) EngineImpl::Get().ThreadEnds(id);
}

EngineImpl& EngineImpl::Get() {
  // Never destroyed: its threads and other libraries' exit handlers may outlive any order of
  // destruction.
  static EngineImpl* const engine = [] {
    auto* made = new EngineImpl;
    pthread_atfork([] { Get().BeforeFork(); }, [] { Get().AfterForkInParent(); },
                   [] { Get().AfterForkInChild(); });
    return made;
  }();
  return *engine;
}

EngineImpl::EngineImpl() : graphs_(new GraphsImpl(*this, memory_)) {}

void EngineImpl::BeforeFork() {
  initialize_mutex_.lock();
  stats_.BeforeFork();
}

void EngineImpl::AfterForkInParent() {
  stats_.AfterForkInParent();
  initialize_mutex_.unlock();
}

// A forked child does not get its parent's devices: it can never use CUDA after the parent did.
void EngineImpl::AfterForkInChild() {
  if (state_.load() == kRunning) state_.store(kBroken);
  // The child has none of its threads, and the parent keeps its place in the job.
  quiescence_.release();  // another process owns it
  job_.release();
  stats_.AfterForkInChild();
  initialize_mutex_.unlock();
}

namespace {

// Does what the driver does at initialisation: opens the library that CUDA_INJECTION64_PATH names,
// and calls its InitializeInjection. Ignores a library that cannot be opened or lacks the function.
void LoadInjection() {
  const char* const path = std::getenv("CUDA_INJECTION64_PATH");
  void* const library = path != nullptr ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  void* const function = library != nullptr ? dlsym(library, "InitializeInjection") : nullptr;
  if (function != nullptr) reinterpret_cast<int (*)()>(function)();
}

}  // namespace

int EngineImpl::Initialize() {
  bool first = false;
  const int status = InitializeOnce(&first);
  if (first) LoadInjection();
  return status;
}

int EngineImpl::InitializeOnce(bool* first) {
  std::lock_guard<std::mutex> lock(initialize_mutex_);
  if (state_.load() == kRunning) return kSuccess;
  if (state_.load() == kBroken) return kNotInitialized;
  if (options_ == nullptr) options_ = std::make_unique<Options>(ReadOptions());
  if (options_->devices.empty()) return kNoDevice;
  const int count = static_cast<int>(options_->devices.size());
  memory_ = std::make_unique<MemoryTable>(count, options_->memory_bytes);
  scheduler_ = std::make_unique<Scheduler>(*options_);
  devices_.resize(count);
  for (int i = 0; i < count; ++i) {
    Device& device = devices_[i];
    device.primary = std::make_unique<Context>();
    device.primary->device = i;
    contexts_.insert(device.primary.get());
    device.legacy = std::make_unique<Stream>();
    device.legacy->device = i;
    device.legacy->legacy = true;
    device.legacy->id = next_stream_id_++;
  }
  job_ = emu::Job::Join();
  if (job_ != nullptr) {
    HostWaits::Get().Enable();
    quiescence_ = std::make_unique<Quiescence>(*job_, *scheduler_);
    scheduler_->SetQuiescence(quiescence_.get());
    quiescence_->Start();
  }
  state_.store(kRunning, std::memory_order_release);
  *first = true;
  return kSuccess;
}

bool EngineImpl::Initialized() { return state_.load(std::memory_order_acquire) == kRunning; }

// --- Devices and contexts ---

int EngineImpl::DeviceCount() { return Ready() ? static_cast<int>(devices_.size()) : 0; }

int EngineImpl::PhysicalDevice(int device) { return Ready() ? options_->devices[device] : -1; }

int EngineImpl::SmCount() { return Ready() ? options_->sms : 0; }

int64_t EngineImpl::KernelNs() { return Ready() ? options_->kernel_ns : 0; }

size_t EngineImpl::MemoryBytes() { return Ready() ? options_->memory_bytes : 0; }

int EngineImpl::CurrentDevice() {
  if (!Ready()) return -1;
  ThreadState& thread = CurrentThread();
  if (thread.stack.empty() || thread.stack.back() == nullptr) {
    SetCurrentContext(devices_[0].primary.get());
  }
  return thread.stack.back()->device;
}

int EngineImpl::SetCurrentDevice(int device) {
  const int status = Initialize();
  if (status != kSuccess) return status;
  if (device < 0 || device >= static_cast<int>(devices_.size())) return kInvalidDevice;
  return SetCurrentContext(devices_[device].primary.get());
}

void* EngineImpl::PrimaryContext(int device) {
  return Ready() ? devices_[device].primary.get() : nullptr;
}

int EngineImpl::DeviceOfContext(void* context) {
  if (!Ready()) return -1;
  Scheduler::Section section(*scheduler_);
  return contexts_.count(context) != 0 ? static_cast<Context*>(context)->device : -1;
}

void* EngineImpl::CurrentContext() {
  const ThreadState& thread = CurrentThread();
  if (thread.stack.empty() || thread.stack.back() == nullptr) return nullptr;
  return thread.stack.back();
}

int EngineImpl::SetCurrentContext(void* context) {
  ThreadState& thread = CurrentThread();
  if (context == nullptr) {
    if (!thread.stack.empty()) thread.stack.pop_back();
    return kSuccess;
  }
  if (DeviceOfContext(context) < 0) return kInvalidContext;
  if (thread.stack.empty()) thread.stack.push_back(nullptr);
  thread.stack.back() = static_cast<Context*>(context);
  return kSuccess;
}

int EngineImpl::PushContext(void* context) {
  if (context != nullptr && DeviceOfContext(context) < 0) return kInvalidContext;
  CurrentThread().stack.push_back(static_cast<Context*>(context));
  return kSuccess;
}

int EngineImpl::PopContext(void** context) {
  ThreadState& thread = CurrentThread();
  if (thread.stack.empty()) return kInvalidContext;
  if (context != nullptr) *context = thread.stack.back();
  thread.stack.pop_back();
  return kSuccess;
}

int EngineImpl::CreateContext(int device, void** context) {
  if (!Ready()) return kNotInitialized;
  auto* made = new Context;
  made->device = device;
  {
    Scheduler::Section section(*scheduler_);
    contexts_.insert(made);
  }
  *context = made;
  return PushContext(made);
}

int EngineImpl::DestroyContext(void* context) {
  if (!Ready()) return kNotInitialized;
  const int device = DeviceOfContext(context);
  if (device < 0 || context == devices_[device].primary.get()) return kInvalidContext;
  AwaitDevice(device);
  {
    Scheduler::Section section(*scheduler_);
    contexts_.erase(context);
  }
  ThreadState& thread = CurrentThread();
  if (!thread.stack.empty() && thread.stack.back() == context) thread.stack.pop_back();
  return kSuccess;
}

int EngineImpl::ResetDevice(int device_index) {
  if (!Ready()) return kNotInitialized;
  scheduler_->CancelKernels(device_index);
  AwaitDevice(device_index);
  {
    Scheduler::Section section(*scheduler_);
    Device& device = devices_[device_index];
    while (!device.streams.empty()) RetireStream(*device.streams.begin());
    device.per_thread.clear();
    device.orphans.clear();
    device.legacy->last = nullptr;
    device.peers.clear();
    for (auto at = live_events_.begin(); at != live_events_.end();) {
      auto* event = static_cast<Event*>(*at);
      if (event->device != device_index) {
        ++at;
        continue;
      }
      at = live_events_.erase(at);
      delete event;
    }
  }
  graphs_->memory().ResetDevice(device_index);
  ResetPools(device_index);
  memory_->ReleaseDevice(device_index);
  std::lock_guard<std::mutex> lock(imports_mutex_);
  for (auto at = imports_.begin(); at != imports_.end();) {
    Allocation found;
    const Import import = at->second;
    const bool lives = memory_->FindBase(import.pointer, &found);
    if (!lives) munmap(import.mapping, import.mapped_bytes);
    at = lives ? std::next(at) : imports_.erase(at);
  }
  return kSuccess;
}

int EngineImpl::EnablePeer(int peer) {
  const int device = CurrentDevice();
  if (device < 0) return Initialize();
  if (peer < 0 || peer >= DeviceCount()) return kInvalidDevice;
  if (peer == device) return kPeerAccessUnsupported;
  Scheduler::Section section(*scheduler_);
  return devices_[device].peers.insert(peer).second ? kSuccess : kPeerAccessAlreadyEnabled;
}

int EngineImpl::DisablePeer(int peer) {
  const int device = CurrentDevice();
  if (device < 0) return Initialize();
  if (peer < 0 || peer >= DeviceCount()) return kInvalidDevice;
  Scheduler::Section section(*scheduler_);
  return devices_[device].peers.erase(peer) != 0 ? kSuccess : kPeerAccessNotEnabled;
}

// --- For the emulated NCCL ---

void EngineImpl::CountCall(const char* symbol) {
  current_call = symbol;
  stats_.Count(symbol);
}

void EngineImpl::CountMore(const std::string& name, uint64_t amount) { stats_.Add(name, amount); }

JobState* EngineImpl::Job() { return Ready() && job_ != nullptr ? job_->state() : nullptr; }

void EngineImpl::NoteActivity() {
  if (job_ != nullptr) job_->NoteActivity();
}

void EngineImpl::LeaveJob() {
  if (job_ == nullptr) return;
  if (quiescence_ != nullptr) quiescence_->Leave();
  job_->Leave();
}

int EngineImpl::DoorbellFd() { return Ready() ? scheduler_->doorbell_fd() : -1; }

std::atomic<uint32_t>* EngineImpl::Doorbell() { return Ready() ? scheduler_->doorbell() : nullptr; }

Stream* EngineImpl::FindStream(void* handle, int device) {
  if (!Ready() || device < 0 || device >= static_cast<int>(devices_.size())) return nullptr;
  Scheduler::Section section(*scheduler_);
  return Resolve(handle, device);
}

int EngineImpl::DeviceOf(Stream* stream) { return stream->device; }

bool EngineImpl::IsCapturing(Stream* stream) {
  if (!Ready()) return false;
  Scheduler::Section section(*scheduler_);
  return IsLive(stream) && stream->capture != nullptr;
}

int EngineImpl::FindCapture(Stream* stream, uint64_t* id) {
  *id = 0;
  if (!Ready()) return Initialize();
  Scheduler::Section section(*scheduler_);
  if (!IsLive(stream)) return kInvalidHandle;
  if (stream->capture == nullptr) return graphs_->CheckLegacy(*stream, false);
  *id = stream->capture->sequence->id;
  return stream->capture->sequence->invalidated ? kStreamCaptureInvalidated : kSuccess;
}

int EngineImpl::Capture(CaptureRequest request) {
  return Ready() ? graphs_->CaptureOp(std::move(request)) : Initialize();
}

GraphEngine& EngineImpl::Graphs() { return *graphs_; }

bool EngineImpl::IsDone(const DeviceOp* op) {
  if (!Ready()) return true;
  Scheduler::Section section(*scheduler_);
  return scheduler_->FindOp(op) == nullptr;
}

// --- Memory ---

void* EngineImpl::Allocate(size_t bytes, int device) {
  if (!Ready() || bytes == 0 || device < 0 || device >= static_cast<int>(devices_.size())) {
    return nullptr;
  }
  return memory_->Allocate(bytes, MemoryKind::kDevice, device, 0);
}

int EngineImpl::Free(void* pointer) { return FreeDevice(pointer); }

int EngineImpl::FreeWithoutWait(void* pointer) {
  Allocation found;
  if (!Ready() || !memory_->FindBase(pointer, &found) || found.kind != MemoryKind::kDevice ||
      (found.origin != MemoryOrigin::kHeap && found.origin != MemoryOrigin::kMapped &&
       found.origin != MemoryOrigin::kMalloc)) {
    return kInvalidValue;
  }
  Scheduler::Section section(*scheduler_);
  MarkDevice(found.device, [this, pointer] { memory_->Release(pointer); });
  return kSuccess;
}

TaskPtr EngineImpl::MarkDevice(int device, std::function<void()> work) {
  const auto marker = std::make_shared<Task>(TaskKind::kMarker);
  marker->device = device;
  marker->work = std::move(work);
  AddDeviceDependencies(marker, device);
  scheduler_->Submit(marker);
  return marker;
}

bool EngineImpl::IsDeviceAccessible(const void* pointer, size_t bytes, int* device) {
  Allocation found;
  if (!Ready() || !memory_->Find(pointer, bytes, &found)) return false;
  // Managed memory has a device that was current when it was made, and no owner.
  if (device != nullptr) *device = found.kind == MemoryKind::kDevice ? found.device : -1;
  return true;
}

int EngineImpl::AllocateMemory(size_t bytes, MemoryKind kind, unsigned flags, void** pointer) {
  const int device = CurrentDevice();
  if (device < 0) return Initialize();
  if (pointer == nullptr) return kInvalidValue;
  if (const int status = graphs_->CheckUnsafeCall()) return status;
  *pointer = nullptr;
  if (bytes == 0) return kSuccess;
  *pointer = memory_->Allocate(bytes, kind, device, flags);
  return *pointer != nullptr ? kSuccess : kOutOfMemory;
}

int EngineImpl::FreeDevice(void* pointer) {
  if (!Ready()) return Initialize();
  if (pointer == nullptr) return kSuccess;
  if (const int status = graphs_->CheckUnsafeCall()) return status;
  Allocation found;
  if (!memory_->FindBase(pointer, &found) ||
      (found.kind != MemoryKind::kDevice && found.kind != MemoryKind::kManaged) ||
      found.origin == MemoryOrigin::kIpc || found.origin == MemoryOrigin::kVirtual) {
    return kInvalidValue;
  }
  if (found.origin == MemoryOrigin::kPool) {
    // Takes stream-ordered memory back without a wait; reuses it when the device's work is done.
    Scheduler::Section section(*scheduler_);
    MemoryPool* const pool = FindPool(found.pool);
    if (!memory_->Release(pointer)) return kInvalidValue;
    if (pool != nullptr) FreeToPool(pointer, pool, nullptr, MarkDevice(found.device));
    return kSuccess;
  }
  const WaitName name("free");
  AwaitDevice(found.device);
  AfterSynchronisation();
  if (graphs_->memory().Find(pointer) != nullptr) {
    return graphs_->memory().End(pointer) != nullptr ? kSuccess : kInvalidValue;
  }
  return memory_->Release(pointer) ? kSuccess : kInvalidValue;
}

int EngineImpl::FreeHost(void* pointer) {
  if (!Ready()) return Initialize();
  if (pointer == nullptr) return kSuccess;
  if (const int status = graphs_->CheckUnsafeCall()) return status;
  Allocation found;
  if (!memory_->FindBase(pointer, &found) || found.kind != MemoryKind::kPinned) {
    return kInvalidValue;
  }
  AwaitDevice(found.device);
  return memory_->Release(pointer) ? kSuccess : kInvalidValue;
}

int EngineImpl::RegisterHost(void* pointer, size_t bytes, unsigned flags) {
  const int device = CurrentDevice();
  return device < 0 ? Initialize() : memory_->Register(pointer, bytes, device, flags);
}

int EngineImpl::UnregisterHost(void* pointer) {
  if (!Ready()) return Initialize();
  Allocation found;
  if (pointer != nullptr && memory_->FindBase(pointer, &found) &&
      found.kind == MemoryKind::kRegistered) {
    AwaitDevice(found.device);
  }
  return memory_->Unregister(pointer);
}

bool EngineImpl::FindMemory(const void* pointer, Allocation* found) {
  return Ready() && memory_->Find(pointer, 0, found);
}

int EngineImpl::SetSynchronises(const void* pointer, bool synchronises) {
  return Ready() && memory_->SetSynchronises(pointer, synchronises) ? kSuccess : kInvalidValue;
}

int EngineImpl::MemoryInfo(size_t* free_bytes, size_t* total_bytes) {
  const int device = CurrentDevice();
  if (device < 0) return Initialize();
  *total_bytes = memory_->limit_bytes();
  *free_bytes = *total_bytes - memory_->UsedBytes(device);
  return kSuccess;
}

}  // namespace gordian::emu

namespace {

__attribute__((destructor)) void LeaveJobAtExit() { gordian::emu::EngineImpl::Get().LeaveJob(); }

}  // namespace

extern "C" __attribute__((visibility("default"))) gordian::emu::Engine* gordianEmuEngine(
    uint32_t version) {
  if (version != gordian::emu::kEngineApiVersion) return nullptr;
  return &gordian::emu::EngineImpl::Get();
}
