#include "runtime/cpu/streams/cuda_streams.h"

#include <atomic>
#include <cstring>

#include "runtime/cpu/engine.h"

namespace gordian::runtime {
namespace {

constexpr size_t kPage = 4096;
constexpr unsigned kWaitValueGreaterOrEqual = 0;  // CU_STREAM_WAIT_VALUE_GEQ
constexpr unsigned kEventDisableTiming = 2;       // cudaEventDisableTiming
constexpr unsigned kStreamNonBlocking = 1;        // cudaStreamNonBlocking
constexpr int kCaptureModeRelaxed = 2;            // cudaStreamCaptureModeRelaxed

struct TurnCall {
  Engine* engine;
  std::shared_ptr<Unit> unit;
};

void CallTurn(void* user) {
  const std::unique_ptr<TurnCall> call(static_cast<TurnCall*>(user));
  call->engine->Turn(call->unit);
}

const Comm& CommOf(const Unit& unit) {
  return *(unit.tasks.empty() ? unit.joins : unit.tasks).front()->comm;
}

constexpr uintptr_t kLegacyStream = 1,
                    kPerThreadStream = 2;  // cudaStreamLegacy, also 0; cudaStreamPerThread

// Of the calling thread, and of no other that ever was.
uint64_t ThreadNumber() {
  static std::atomic<uint64_t> threads{0};
  thread_local const uint64_t number = threads.fetch_add(1) + 1;
  return number;
}

}  // namespace

class CudaStreams::Relaxed {
 public:
  explicit Relaxed(const grtCudaFunctions_t& cuda) : cuda_(cuda) {
    exchanged_ = cuda_.exchange_capture_mode != nullptr && cuda_.exchange_capture_mode(&mode_) == 0;
  }
  ~Relaxed() {
    if (exchanged_) cuda_.exchange_capture_mode(&mode_);
  }
  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;

 private:
  const grtCudaFunctions_t& cuda_;
  int mode_ = kCaptureModeRelaxed;
  bool exchanged_ = false;
};

// The current device, for a while; -1: as it is.
class CudaStreams::OnDevice {
 public:
  OnDevice(const grtCudaFunctions_t& cuda, int device) : cuda_(cuda) {
    changed_ = device >= 0 && cuda_.set_device != nullptr && cuda_.get_device(&before_) == 0 &&
               before_ != device && cuda_.set_device(device) == 0;
  }
  ~OnDevice() {
    if (changed_) cuda_.set_device(before_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  const grtCudaFunctions_t& cuda_;
  int before_ = 0;
  bool changed_ = false;
};

class CudaStreams::Marker : public StreamMarker {
 public:
  Marker(CudaStreams* streams, int device, void* event)
      : streams_(*streams), device_(device), event_(event) {}
  ~Marker() override {
    const std::lock_guard<std::mutex> lock(streams_.events_mutex_);
    streams_.events_[device_].push_back(event_);
  }
  bool Reached() override {
    const Relaxed relaxed(streams_.cuda_);
    return streams_.cuda_.event_query(event_) == 0;
  }

 private:
  CudaStreams& streams_;
  const int device_;
  void* const event_;
};

void* CudaStreams::TakeEvent(int device) {
  {
    const std::lock_guard<std::mutex> lock(events_mutex_);
    std::vector<void*>& spare = events_[device];
    if (!spare.empty()) {
      void* const event = spare.back();
      spare.pop_back();
      return event;
    }
  }
  void* event = nullptr;
  return cuda_.event_create(&event, kEventDisableTiming) == 0 ? event : nullptr;
}

bool CudaStreams::StandsApart(cudaStream_t stream) {
  unsigned flags = 0;
  return cuda_.stream_get_flags != nullptr && cuda_.stream_get_flags(stream, &flags) == 0 &&
         (flags & kStreamNonBlocking) != 0;
}

std::shared_ptr<StreamMarker> CudaStreams::Mark(cudaStream_t stream) {
  if (cuda_.event_create == nullptr || cuda_.event_record == nullptr ||
      cuda_.event_query == nullptr)
    return nullptr;
  const Relaxed relaxed(cuda_);
  if (IsCapturing(stream)) return nullptr;
  const int device = CurrentDevice();
  void* const event = TakeEvent(device);
  if (event == nullptr) return nullptr;
  auto marker = std::make_shared<Marker>(this, device, event);
  // Refused where the stream is not of the current device.
  return cuda_.event_record(event, stream) == 0 ? marker : nullptr;
}

uint64_t* CudaStreams::NewWord() {
  if (words_left_ == 0) {
    void* page = nullptr;
    if (cuda_.host_alloc(&page, kPage, 0) != 0) return nullptr;
    std::memset(page, 0, kPage);
    words_ = static_cast<uint64_t*>(page);
    words_left_ = kPage / sizeof(uint64_t);
  }
  return &words_[--words_left_];
}

grtResult_t CudaStreams::Enqueue(const std::shared_ptr<Unit>& unit) {
  // Held while CUDA is called: the order of a stream's numbers is that of its waits. CUDA calls
  // nothing back from here.
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto handle = reinterpret_cast<uintptr_t>(unit->stream);
  const int device = CommOf(*unit).config().device;
  Key key = {unit->stream, 0, 0};
  if (handle <= kPerThreadStream) {
    key = {handle < kLegacyStream ? reinterpret_cast<cudaStream_t>(kLegacyStream) : unit->stream,
           device, handle == kPerThreadStream ? ThreadNumber() : 0};
  }
  const OnDevice on(cuda_, handle <= kPerThreadStream ? device : -1);
  Stream& stream = streams_[key];
  unit->place = &stream;
  if (unit->strict && stream.word == nullptr) {
    stream.word = NewWord();
    if (stream.word == nullptr) return grtUnhandledCudaError;
  }
  if (!unit->tasks.empty()) {
    auto* call = new TurnCall{CommOf(*unit).engine(), unit};
    if (cuda_.launch_host_func(unit->stream, CallTurn, call) != 0) {
      delete call;
      return grtUnhandledCudaError;
    }
  }
  if (!unit->strict) return grtSuccess;
  unit->index = stream.next;
  if (cuda_.stream_wait_value64(unit->stream, reinterpret_cast<uintptr_t>(stream.word), unit->index,
                                kWaitValueGreaterOrEqual) != 0) {
    return grtUnhandledCudaError;
  }
  ++stream.next;
  return grtSuccess;
}

void CudaStreams::Release(const std::shared_ptr<Unit>& unit) {
  if (unit->index == 0) return;  // CUDA did not take it
  const std::lock_guard<std::mutex> lock(mutex_);
  Stream& stream = *static_cast<Stream*>(unit->place);
  stream.beyond.insert(unit->index);
  while (!stream.beyond.empty() && *stream.beyond.begin() == stream.released + 1) {
    stream.beyond.erase(stream.beyond.begin());
    ++stream.released;
  }
  std::atomic_ref<uint64_t>(*stream.word).store(stream.released, std::memory_order_release);
}

int CudaStreams::CurrentDevice() {
  int device = 0;
  return cuda_.get_device(&device) == 0 ? device : 0;
}

bool CudaStreams::IsCapturing(cudaStream_t stream) {
  int status = 0;
  return cuda_.stream_is_capturing(stream, &status) == 0 && status != 0;
}

}  // namespace gordian::runtime
