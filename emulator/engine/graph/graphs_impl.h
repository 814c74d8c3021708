// The process's graphs, executable graphs and captures. Only emulator/engine includes this.
//
// The scheduler's lock guards everything: capture changes streams and events, and a launch submits
// tasks. Objects whose destruction may run the application's code (user objects, sources of
// operations) are moved out and destroyed after the lock is released.
#ifndef GORDIAN_EMULATOR_ENGINE_GRAPH_GRAPHS_IMPL_H_
#define GORDIAN_EMULATOR_ENGINE_GRAPH_GRAPHS_IMPL_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "emulator/engine/engine_impl.h"
#include "emulator/engine/graph/capture.h"
#include "emulator/engine/graph/graph.h"
#include "emulator/engine/graph/graph_api.h"
#include "emulator/engine/graph/graph_memory.h"

namespace gordian::emu {

inline constexpr int kPriorityAttribute = 8;  // cudaLaunchAttributePriority

class GraphsImpl final : public GraphEngine {
 public:
  // `memory` exists once the engine is initialised.
  GraphsImpl(EngineImpl& engine, std::unique_ptr<MemoryTable>& memory)
      : engine_(engine), memory_(memory) {}

  int CreateGraph(void** graph) override;
  int DestroyGraph(void* graph) override;
  int CloneGraph(void* graph, void** clone) override;
  int FindInClone(void* original_node, void* clone, void** node) override;
  int AddNode(void* graph, const Dependencies& after, NodeParams* params, void** node) override;
  int DestroyNode(void* node) override;
  int GetParams(void* node, NodeParams* params) override;
  int SetParams(void* node, const NodeParams& params) override;
  int GetType(void* node, NodeType* type) override;
  int GetAttribute(void* node, int attribute, void* value64) override;
  int SetAttribute(void* node, int attribute, const void* value64) override;
  int CopyAttributes(void* to, void* from) override;
  int GetNodes(void* graph, bool roots_only, void** nodes, size_t* count) override;
  int GetEdges(void* graph, const EdgeQuery& query) override;
  int GetNeighbours(void* node, bool dependents, void** nodes, EdgeData* edges,
                    size_t* count) override;
  int AddEdges(void* graph, void* const* from, void* const* to, const EdgeData* edges,
               size_t count) override;
  int RemoveEdges(void* graph, void* const* from, void* const* to, const EdgeData* edges,
                  size_t count) override;
  int PrintDot(void* graph, const char* path, unsigned flags) override;

  int CreateUserObject(void* data, void (*destroy)(void*), unsigned references, unsigned flags,
                       void** object) override;
  int RetainUserObject(void* object, unsigned count) override;
  int ReleaseUserObject(void* object, unsigned count) override;
  int GraphRetainUserObject(void* graph, void* object, unsigned count, bool move) override;
  int GraphReleaseUserObject(void* graph, void* object, unsigned count) override;

  int Instantiate(void* graph, uint64_t flags, void** exec, InstantiateResult* result,
                  void** error_node) override;
  int DestroyExec(void* exec) override;
  int GetExecFlags(void* exec, uint64_t* flags) override;
  int SetExecParams(void* exec, void* node, const NodeParams& params) override;
  int SetEnabled(void* exec, void* node, bool enabled) override;
  int GetEnabled(void* exec, void* node, bool* enabled) override;
  int UpdateExec(void* exec, void* graph, UpdateInfo* info) override;
  int Upload(void* exec, void* stream) override;
  int Launch(void* exec, void* stream) override;

  int GetMemoryAttribute(int device, GraphMemory attribute, uint64_t* value) override;
  int SetMemoryAttribute(int device, GraphMemory attribute, uint64_t value) override;
  int TrimMemory(int device) override;

  int BeginCapture(void* stream, CaptureMode mode, void* graph, const Dependencies& after) override;
  int EndCapture(void* stream, void** graph) override;
  int GetCaptureInfo(void* stream, CaptureInfo* info) override;
  int UpdateDependencies(void* stream, const Dependencies& dependencies, bool replace) override;
  CaptureMode ExchangeThreadMode(CaptureMode mode) override;
  bool CaptureKernel(void* stream, const KernelParams& params, int* status) override;
  bool CaptureHostFunction(void* stream, const HostParams& params, int* status) override;
  bool CaptureExternalRecord(void* event, void* stream, int* status) override;
  bool CaptureExternalWait(void* stream, void* event, int* status) override;
  bool CaptureAllocate(void* stream, size_t bytes, void** pointer, int* status) override;
  int CheckUnsafeCall() override;

  // --- For EngineImpl, not under a Section. As above: true when the call has been dealt with. ---
  bool CaptureCopy(void* stream, const CopyRequest& copy, int* status);
  bool CaptureFill(void* stream, const FillRequest& fill, int* status);
  bool CaptureFree(void* stream, void* pointer, int* status);
  int CaptureOp(CaptureRequest request);

  // --- For EngineImpl, under a Section ---
  // For calls that a capturing stream cannot take. Invalidates the captures that they conflict
  // with.
  int CheckNotCapturing(const Stream& stream);
  // For the legacy stream: capturing blocking streams forbid its use.
  int CheckLegacy(const Stream& stream, bool invalidate);
  // The same for a call that waits for, or queries, everything on a device.
  int CheckDevice(int device);
  int CheckEvent(const Event& event);
  bool CaptureRecord(Event* event, Stream* stream, int* status);
  bool CaptureWait(Stream* stream, const Event& event, int* status);
  void ForgetStream(Stream* stream);

  GraphMemoryPool& memory() { return memory_; }

 private:
  struct UserObjectEntry {
    std::weak_ptr<UserObject> object;
    std::shared_ptr<UserObject> held;  // while the application has references of its own
    uint64_t references = 0;           // those
  };

  // Call all of these under a Section. Null if the handle is not live.
  Graph* FindGraph(void* handle);
  GraphNode* FindNode(void* handle);
  GraphExec* FindExec(void* handle);
  GraphNode* FindExecNode(GraphExec* exec, void* node);
  UserObjectEntry* FindUserObject(void* handle);
  void Learn(Graph* graph);   // its handles become valid
  void Forget(Graph* graph);  // and invalid
  int CheckDependencies(const Graph& graph, const Dependencies& after);
  int CheckParams(const NodeParams& params);
  int CheckCopy(const CopyParams& copy);
  int PrepareChild(Graph* parent, NodeParams* params, std::unique_ptr<Graph>* child);
  int PrepareMemory(Graph* graph, NodeParams* params);
  int Replace(GraphNode* node, const NodeParams& params, NodeParams* old);

  // Updates.
  int CheckExecChange(const GraphExec& exec, const GraphNode& node, const NodeParams& params,
                      bool by_update);
  bool SameMemory(const void* a, const void* b);
  bool PairGraphs(const Graph& exec, const Graph& graph,
                  std::vector<std::pair<GraphNode*, GraphNode*>>* pairs, UpdateInfo* info);

  // Launches.
  struct LaunchState;
  void CollectSources(const Graph& graph, std::vector<std::shared_ptr<OpSource>>* sources);
  int CaptureLaunch(Stream* stream, const GraphExec& exec);
  int LaunchMemory(const GraphExec& exec);
  void SubmitGraph(const Graph& graph, LaunchState* state, const TaskPtr& begin, int lane,
                   const TaskPtr& end);
  TaskKind CopyTaskKind(const CopyParams& copy);
  TaskPtr MakeTask(GraphNode* node, LaunchState* state);
  void RecordInGraph(void* event, const TaskPtr& task);

  // Captures.
  void Invalidate(Capture* capture);
  bool IsForbidden(const Capture& capture) const;
  // Returns true if the stream's next work is captured, or refused with a reason in *status.
  bool Intercept(Stream* stream, int* status);
  // For a call on an unchecked stream: opens its own Section, and calls `capture` if the stream is
  // capturing.
  template <typename Function>
  bool InterceptCall(void* stream, int* status, Function capture);
  GraphNode* AddCaptured(Stream* stream, NodeParams params);
  void Join(Stream* stream, const CapturePtr& sequence);
  void EndSequence(const CapturePtr& sequence);
  bool Joined(const Capture& capture) const;

  EngineImpl& engine_;
  GraphMemoryPool memory_;
  std::unordered_map<void*, std::unique_ptr<Graph>> graphs_;  // those that no other graph contains
  std::unordered_set<void*> known_graphs_;                    // all of them
  std::unordered_set<void*> nodes_;
  std::unordered_map<void*, std::shared_ptr<GraphExec>> execs_;
  std::unordered_map<void*, UserObjectEntry> objects_;
  std::vector<CapturePtr> captures_;           // running
  std::atomic<size_t> captures_under_way_{0};  // their number: most processes have none
  std::mutex launch_mutex_;                    // taken before the scheduler's lock
};

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_GRAPH_GRAPHS_IMPL_H_
