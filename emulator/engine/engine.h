// What the emulated libcuda and libcudart need from the engine, beyond engine_api.h. Results are
// Status numbers, which CUresult and cudaError_t share. Handles are the values that the application
// sees: 0 and 1 name the legacy stream of the current device, 2 the calling thread's own default
// stream; entry points for callers with per-thread default streams turn 0 into 2 first.
//
// Threads: any. Every method does the lazy initialisation that it needs.
#ifndef GORDIAN_EMULATOR_ENGINE_ENGINE_H_
#define GORDIAN_EMULATOR_ENGINE_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "emulator/engine/engine_api.h"
#include "emulator/engine/memory.h"
#include "emulator/engine/status.h"

namespace gordian::emu {

inline void* const kLegacyStream = reinterpret_cast<void*>(1);
inline void* const kPerThreadStream = reinterpret_cast<void*>(2);

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr int kGreatestPriority = -5;  // as on H200; the least is 0

enum class CopyKind { kHostToHost, kHostToDevice, kDeviceToHost, kDeviceToDevice, kDefault };

// Rows of `width` bytes; a plain copy is one row.
struct CopyRequest {
  void* to = nullptr;
  size_t to_pitch = 0;
  const void* from = nullptr;
  size_t from_pitch = 0;
  size_t width = 0;
  size_t height = 1;
  CopyKind kind = CopyKind::kDefault;
  bool synchronous = false;  // cudaMemcpy's contract instead of cudaMemcpyAsync's
};

struct FillRequest {
  void* to = nullptr;
  size_t pitch = 0;
  uint32_t value = 0;
  size_t element_bytes = 1;  // 1, 2 or 4
  size_t width = 0;          // elements
  size_t height = 1;
  bool synchronous = false;
};

struct StreamInfo {
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
};

class GraphEngine;  // graph_api.h

class DeviceEngine : public Engine {
 public:
  // kSuccess, kNoDevice, or kNotInitialized in a child forked from a process that had initialised.
  virtual int Initialize() = 0;
  virtual bool Initialized() = 0;
  virtual int PhysicalDevice(int device) = 0;
  virtual int SmCount() = 0;
  virtual int64_t KernelNs() = 0;
  virtual size_t MemoryBytes() = 0;  // per device

  // Contexts: one primary context per device, and those that cuCtxCreate made. Null is "none".
  virtual int SetCurrentDevice(int device) = 0;
  virtual void* PrimaryContext(int device) = 0;
  virtual int DeviceOfContext(void* context) = 0;  // -1: not a context
  virtual void* CurrentContext() = 0;
  virtual int SetCurrentContext(void* context) = 0;
  virtual int PushContext(void* context) = 0;
  virtual int PopContext(void** context) = 0;
  virtual int CreateContext(int device, void** context) = 0;
  virtual int DestroyContext(void* context) = 0;
  // Cancels the device's work and frees its memory, streams and events.
  virtual int ResetDevice(int device) = 0;

  virtual int CreateStream(unsigned flags, int priority, void** handle) = 0;
  virtual int DestroyStream(void* handle) = 0;
  virtual int DescribeStream(void* handle, StreamInfo* info) = 0;
  virtual int SynchronizeStream(void* handle) = 0;
  virtual int QueryStream(void* handle) = 0;
  virtual int WaitEvent(void* stream, void* event) = 0;
  virtual int SynchronizeDevice(int device) = 0;

  virtual int CreateEvent(unsigned flags, void** handle) = 0;
  virtual int DestroyEvent(void* handle) = 0;
  virtual int RecordEvent(void* event, void* stream) = 0;
  virtual int QueryEvent(void* event) = 0;
  virtual int SynchronizeEvent(void* event) = 0;
  virtual int ElapsedTime(void* start, void* end, float* milliseconds) = 0;

  // A kernel without a body: holds up to `sms` SMs for `duration_ns`.
  virtual int LaunchKernel(void* stream, int64_t sms, int64_t duration_ns) = 0;
  virtual int LaunchHostFunction(void* stream, std::function<void()> function) = 0;
  virtual int Copy(const CopyRequest& request, void* stream) = 0;
  virtual int Fill(const FillRequest& request, void* stream) = 0;

  virtual int AllocateMemory(size_t bytes, MemoryKind kind, unsigned flags, void** pointer) = 0;
  // FreeDevice takes device and managed memory, FreeHost pinned memory; both wait for all work of
  // the device that was enqueued before.
  virtual int FreeDevice(void* pointer) = 0;
  virtual int FreeHost(void* pointer) = 0;
  virtual int FreeInStreamOrder(void* pointer, void* stream) = 0;
  virtual int RegisterHost(void* pointer, size_t bytes, unsigned flags) = 0;
  virtual int UnregisterHost(void* pointer) = 0;
  virtual bool FindMemory(const void* pointer, Allocation* found) = 0;
  virtual int MemoryInfo(size_t* free_bytes, size_t* total_bytes) = 0;
  virtual int EnablePeer(int peer) = 0;
  virtual int DisablePeer(int peer) = 0;

  virtual GraphEngine& Graphs() = 0;

 protected:
  ~DeviceEngine() = default;
};

// The process's engine as libcudart sees it; null when libcuda.so.1 is of another build.
inline DeviceEngine* FindDeviceEngine() {
  return static_cast<DeviceEngine*>(gordianEmuEngine(kEngineApiVersion));
}

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_ENGINE_H_
