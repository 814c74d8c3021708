// Graphs and stream capture for the emulated libcudart and libcuda. Results are Status numbers;
// handles are the application's values, and invalid ones give kInvalidValue and are never
// dereferenced.
//
// Threads: any; the engine's lock guards graphs, though CUDA does not promise that. Ownership: the
// engine owns what handles name until the program destroys it.
#ifndef GORDIAN_EMULATOR_ENGINE_GRAPH_GRAPH_API_H_
#define GORDIAN_EMULATOR_ENGINE_GRAPH_GRAPH_API_H_

#include <cstddef>
#include <cstdint>

#include "emulator/engine/graph/graph_params.h"

namespace gordian::emu {

// Instantiation flags.
inline constexpr uint64_t kAutoFreeOnLaunch = 1;
inline constexpr uint64_t kUploadAtInstantiate = 2;
inline constexpr uint64_t kDeviceLaunch = 4;
inline constexpr uint64_t kUseNodePriority = 8;

enum class CaptureMode : int { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };
enum class CaptureStatus : int { kNone = 0, kActive = 1, kInvalidated = 2 };

// cudaGraphInstantiateResult.
enum class InstantiateResult : int {
  kSuccess = 0,
  kError = 1,
  kInvalidStructure = 2,
  kOperationNotSupported = 3,
};

// cudaGraphExecUpdateResult.
enum class UpdateResult : int {
  kSuccess = 0,
  kError = 1,
  kTopologyChanged = 2,
  kNodeTypeChanged = 3,
  kParametersChanged = 5,
  kNotSupported = 6,
  kAttributesChanged = 8,
};

// Pointers are the engine's, valid until the next call on the stream or the end of the capture.
struct CaptureInfo {
  CaptureStatus status = CaptureStatus::kNone;
  uint64_t id = 0;
  void* graph = nullptr;
  void* const* dependencies = nullptr;
  const EdgeData* edges = nullptr;
  size_t count = 0;
  bool lossy = false;  // an edge that is not a default one
};

struct UpdateInfo {
  UpdateResult result = UpdateResult::kSuccess;
  void* error_node = nullptr;
  void* error_from_node = nullptr;
};

struct Dependencies {
  void* const* nodes = nullptr;
  const EdgeData* edges = nullptr;  // null: default ones
  size_t count = 0;
};

struct EdgeQuery {
  void** from = nullptr;
  void** to = nullptr;
  EdgeData* edges = nullptr;
  size_t* count = nullptr;
};

enum class GraphMemory : int { kUsed = 0, kUsedHigh = 1, kReserved = 2, kReservedHigh = 3 };

class GraphEngine {
 public:
  // --- Graphs ---
  virtual int CreateGraph(void** graph) = 0;
  virtual int DestroyGraph(void* graph) = 0;
  virtual int CloneGraph(void* graph, void** clone) = 0;
  virtual int FindInClone(void* original_node, void* clone, void** node) = 0;
  // Alloc nodes get their address in `params`.
  virtual int AddNode(void* graph, const Dependencies& after, NodeParams* params, void** node) = 0;
  virtual int DestroyNode(void* node) = 0;
  virtual int GetParams(void* node, NodeParams* params) = 0;
  virtual int SetParams(void* node, const NodeParams& params) = 0;
  virtual int GetType(void* node, NodeType* type) = 0;
  virtual int GetAttribute(void* node, int attribute, void* value64) = 0;
  virtual int SetAttribute(void* node, int attribute, const void* value64) = 0;
  virtual int CopyAttributes(void* to, void* from) = 0;
  virtual int GetNodes(void* graph, bool roots_only, void** nodes, size_t* count) = 0;
  virtual int GetEdges(void* graph, const EdgeQuery& query) = 0;
  virtual int GetNeighbours(void* node, bool dependents, void** nodes, EdgeData* edges,
                            size_t* count) = 0;
  virtual int AddEdges(void* graph, void* const* from, void* const* to, const EdgeData* edges,
                       size_t count) = 0;
  virtual int RemoveEdges(void* graph, void* const* from, void* const* to, const EdgeData* edges,
                          size_t count) = 0;
  virtual int PrintDot(void* graph, const char* path, unsigned flags) = 0;

  // --- User objects ---
  virtual int CreateUserObject(void* data, void (*destroy)(void*), unsigned references,
                               unsigned flags, void** object) = 0;
  virtual int RetainUserObject(void* object, unsigned count) = 0;
  virtual int ReleaseUserObject(void* object, unsigned count) = 0;
  virtual int GraphRetainUserObject(void* graph, void* object, unsigned count, bool move) = 0;
  virtual int GraphReleaseUserObject(void* graph, void* object, unsigned count) = 0;

  // --- Executable graphs ---
  virtual int Instantiate(void* graph, uint64_t flags, void** exec, InstantiateResult* result,
                          void** error_node) = 0;
  virtual int DestroyExec(void* exec) = 0;
  virtual int GetExecFlags(void* exec, uint64_t* flags) = 0;
  virtual int SetExecParams(void* exec, void* node, const NodeParams& params) = 0;
  virtual int SetEnabled(void* exec, void* node, bool enabled) = 0;
  virtual int GetEnabled(void* exec, void* node, bool* enabled) = 0;
  virtual int UpdateExec(void* exec, void* graph, UpdateInfo* info) = 0;
  virtual int Upload(void* exec, void* stream) = 0;
  virtual int Launch(void* exec, void* stream) = 0;

  // --- Memory of graphs ---
  virtual int GetMemoryAttribute(int device, GraphMemory attribute, uint64_t* value) = 0;
  virtual int SetMemoryAttribute(int device, GraphMemory attribute, uint64_t value) = 0;
  virtual int TrimMemory(int device) = 0;

  // --- Capture ---
  // `graph` null: a new one.
  virtual int BeginCapture(void* stream, CaptureMode mode, void* graph,
                           const Dependencies& after) = 0;
  virtual int EndCapture(void* stream, void** graph) = 0;
  virtual int GetCaptureInfo(void* stream, CaptureInfo* info) = 0;
  virtual int UpdateDependencies(void* stream, const Dependencies& dependencies, bool replace) = 0;
  virtual CaptureMode ExchangeThreadMode(CaptureMode mode) = 0;

  // Each returns true if it handled the call, with the call's result in *status: the stream is
  // capturing, or another one's capture forbids using it.
  virtual bool CaptureKernel(void* stream, const KernelParams& params, int* status) = 0;
  virtual bool CaptureHostFunction(void* stream, const HostParams& params, int* status) = 0;
  virtual bool CaptureExternalRecord(void* event, void* stream, int* status) = 0;
  virtual bool CaptureExternalWait(void* stream, void* event, int* status) = 0;
  virtual bool CaptureAllocate(void* stream, size_t bytes, void** pointer, int* status) = 0;
  // For a stream-less call that captures may forbid ("potentially unsafe"): kSuccess, or
  // kStreamCaptureUnsupported after invalidating the captures that forbid it.
  virtual int CheckUnsafeCall() = 0;

 protected:
  ~GraphEngine() = default;
};

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_GRAPH_GRAPH_API_H_
