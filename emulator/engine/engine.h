// The engine's interface for the emulated libcuda and libcudart, beyond engine_api.h. Results are
// Status numbers, which CUresult and cudaError_t share. Handles are the application's values: 0 and
// 1 name the legacy stream of the current device, 2 the calling thread's own default stream; entry
// points for callers with per-thread default streams turn 0 into 2 first.
//
// Threads: any. Every method initialises what it needs when it first needs it. Sizes in bytes,
// times in nanoseconds. Ownership: the engine owns what handles name until the program destroys it.
#ifndef GORDIAN_EMULATOR_ENGINE_ENGINE_H_
#define GORDIAN_EMULATOR_ENGINE_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "emulator/engine/engine_api.h"
#include "emulator/engine/memory/memory.h"
#include "emulator/engine/status.h"

namespace gordian::emu {

inline void* const kLegacyStream = reinterpret_cast<void*>(1);
inline void* const kPerThreadStream = reinterpret_cast<void*>(2);

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kEventInterprocess = 4;
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

// Attributes that a program sets for a stream and reads back, numbered as CUstreamAttrValue.
struct StreamAttributes {
  int priority = 0;
  int sync_policy = 1;  // automatic
  struct {
    void* base = nullptr;
    size_t bytes = 0;
    float hit_ratio = 0;
    int hit = 0;
    int miss = 0;
  } window;
  unsigned char domain_of_default = 0;
  unsigned char domain_of_remote = 1;
  int domain = 0;
};

class GraphEngine;  // graph_api.h
// As CUstreamWaitValue_flags has them.
enum class ValueCondition { kGreaterOrEqual = 0, kEqual = 1, kAnd = 2, kNor = 3 };

struct ValueRequest {
  void* address = nullptr;
  uint64_t value = 0;
  size_t bytes = 4;     // or 8
  bool barrier = true;  // of writes: without it the write passes through no hardware queue
  ValueCondition condition = ValueCondition::kGreaterOrEqual;  // waits
};

inline constexpr size_t kIpcHandleBytes = 64;

struct PoolProperties {
  int device = 0;
  bool shareable = false;  // by file descriptor
  size_t max_bytes = 0;    // 0: the device's memory
};
// As CUmemPool_attribute and cudaMemPoolAttr number them.
enum class PoolAttribute {
  kFollowEventDependencies = 1,
  kAllowOpportunistic = 2,
  kAllowInternalDependencies = 3,
  kReleaseThreshold = 4,
  kReservedCurrent = 5,
  kReservedHigh = 6,
  kUsedCurrent = 7,
  kUsedHigh = 8,
};

class DeviceEngine : public Engine {
 public:
  // kSuccess, kNoDevice, or kNotInitialized in a child forked from an initialised process.
  virtual int Initialize() = 0;
  virtual bool Initialized() = 0;
  virtual int SmCount() = 0;
  virtual int64_t KernelNs() = 0;
  virtual size_t MemoryBytes() = 0;  // per device

  // Contexts: one primary context per device, and those of cuCtxCreate. Null is "none".
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
  // `update` reads and writes them; it must not call the engine.
  virtual int UpdateStream(void* handle, const std::function<void(StreamAttributes*)>& update) = 0;
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
  // With CUDA_MODULE_LOADING=LAZY the first one of a `function` waits until its device is idle.
  virtual int LaunchKernel(void* stream, int64_t sms, int64_t duration_ns,
                           const void* function) = 0;
  virtual int LaunchHostFunction(void* stream, std::function<void()> function) = 0;
  virtual int WriteValue(const ValueRequest& request, void* stream) = 0;
  virtual int WaitValue(const ValueRequest& request, void* stream) = 0;
  virtual int Copy(const CopyRequest& request, void* stream) = 0;
  virtual int Fill(const FillRequest& request, void* stream) = 0;

  virtual int AllocateMemory(size_t bytes, MemoryKind kind, unsigned flags, void** pointer) = 0;
  // FreeDevice frees device and managed memory, FreeHost pinned memory; both wait for all earlier
  // work of the device.
  virtual int FreeDevice(void* pointer) = 0;
  virtual int FreeHost(void* pointer) = 0;
  virtual int FreeInStreamOrder(void* pointer, void* stream) = 0;
  virtual int RegisterHost(void* pointer, size_t bytes, unsigned flags) = 0;
  virtual int UnregisterHost(void* pointer) = 0;
  virtual bool FindMemory(const void* pointer, Allocation* found) = 0;
  // Synchronous copies and fills of the allocation always wait: Allocation::synchronises.
  virtual int SetSynchronises(const void* pointer, bool synchronises) = 0;
  virtual int MemoryInfo(size_t* free_bytes, size_t* total_bytes) = 0;
  // Memory pools. `pool` may be null in AllocateInStreamOrder: the device's current one.
  virtual int AllocateInStreamOrder(size_t bytes, void* pool, void* stream, void** pointer) = 0;
  virtual int CreatePool(const PoolProperties& properties, void** pool) = 0;
  virtual int DestroyPool(void* pool) = 0;
  virtual int DefaultPool(int device, void** pool) = 0;
  virtual int CurrentPool(int device, void** pool) = 0;
  virtual int SetCurrentPool(int device, void* pool) = 0;
  virtual int GetPoolAttribute(void* pool, PoolAttribute attribute, uint64_t* value) = 0;
  virtual int SetPoolAttribute(void* pool, PoolAttribute attribute, uint64_t value) = 0;
  virtual int TrimPool(void* pool, size_t keep_bytes) = 0;
  // Access of a device other than the pool's: 0 none, 1 read, 3 read and write.
  virtual int SetPoolAccess(void* pool, int device, unsigned flags) = 0;
  virtual int GetPoolAccess(void* pool, int device, unsigned* flags) = 0;
  virtual int ExportPool(void* pool, int* fd) = 0;
  virtual int ImportPool(int fd, void** pool) = 0;
  virtual int ExportPoolPointer(void* pointer, char data[kIpcHandleBytes]) = 0;
  virtual int ImportPoolPointer(void* pool, const char data[kIpcHandleBytes], void** pointer) = 0;

  // Handles that another process of the same user opens while this one lives.
  virtual int ExportMemory(const void* pointer, char handle[kIpcHandleBytes]) = 0;
  virtual int OpenMemory(const char handle[kIpcHandleBytes], void** pointer) = 0;
  virtual int CloseMemory(void* pointer) = 0;
  virtual int ExportEvent(void* event, char handle[kIpcHandleBytes]) = 0;
  virtual int OpenEvent(const char handle[kIpcHandleBytes], void** event) = 0;

  virtual int EnablePeer(int peer) = 0;
  virtual int DisablePeer(int peer) = 0;

  virtual GraphEngine& Graphs() = 0;

 protected:
  ~DeviceEngine() = default;
};

// The process's engine for libcudart; null if libcuda.so.1 is of another build.
inline DeviceEngine* FindDeviceEngine() {
  return static_cast<DeviceEngine*>(gordianEmuEngine(kEngineApiVersion));
}

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_ENGINE_H_
