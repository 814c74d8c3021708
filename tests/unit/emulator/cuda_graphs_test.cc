// Graphs that are built node by node: what they are, how they run, how they change.
#include <cuda.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "tests/unit/emulator/cuda_graph_test_support.h"

namespace gordian::emu {
namespace {

cudaGraphNode_t AddFill(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& after, void* to,
                        unsigned value, size_t width = 1) {
  cudaMemsetParams params = {to, 0, value, 4, width, 1};
  cudaGraphNode_t node = nullptr;
  EXPECT_EQ(cudaGraphAddMemsetNode(&node, graph, after.data(), after.size(), &params), cudaSuccess);
  return node;
}

cudaGraphNode_t AddCopy(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& after, void* to,
                        const void* from, size_t bytes) {
  cudaGraphNode_t node = nullptr;
  EXPECT_EQ(cudaGraphAddMemcpyNode1D(&node, graph, after.data(), after.size(), to, from, bytes,
                                     cudaMemcpyDefault),
            cudaSuccess);
  return node;
}

cudaMemAllocNodeParams AllocOf(size_t bytes) {
  cudaMemAllocNodeParams params = {};
  params.poolProps.allocType = cudaMemAllocationTypePinned;
  params.poolProps.location = {cudaMemLocationTypeDevice, 0};
  params.bytesize = bytes;
  return params;
}

void LaunchAndWait(cudaGraphExec_t exec, cudaStream_t stream) {
  ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
}

TEST(Graphs, NodesRunInTheOrderOfTheirEdges) {
  const cudaStream_t stream = NewStream();
  int* const memory = NewDeviceInts(3);
  const cudaGraph_t graph = NewGraph();
  // Made in an order that is not the one in which they have to run.
  const cudaGraphNode_t second = AddCopy(graph, {}, memory + 1, memory, 4);
  const cudaGraphNode_t first = AddFill(graph, {}, memory, 7);
  const cudaGraphNode_t third = AddCopy(graph, {second}, memory + 2, memory + 1, 4);
  ASSERT_EQ(cudaGraphAddDependencies(graph, &first, &second, nullptr, 1), cudaSuccess);
  EXPECT_EQ(cudaGraphAddDependencies(graph, &first, &second, nullptr, 1), cudaErrorInvalidValue);
  size_t count = 0;
  ASSERT_EQ(cudaGraphGetRootNodes(graph, nullptr, &count), cudaSuccess);
  EXPECT_EQ(count, 1u);
  cudaGraphNode_t found[4] = {};
  count = 4;
  ASSERT_EQ(cudaGraphNodeGetDependentNodes(second, found, nullptr, &count), cudaSuccess);
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(found[0], third);
  LaunchAndWait(Instantiate(graph), stream);
  EXPECT_EQ(ReadInt(memory + 2), 7);
}

TEST(Graphs, BranchesRunBesideEachOther) {
  const cudaStream_t stream = NewStream();
  Gate gate;
  const cudaGraph_t graph = NewGraph();
  int* const memory = NewDeviceInts(2);
  AddHost(graph, {}, Gate::Pass, &gate);
  const cudaEvent_t event = NewEvent();
  const cudaGraphNode_t fill = AddFill(graph, {}, memory, 3);
  cudaGraphNode_t record = nullptr;
  ASSERT_EQ(cudaGraphAddEventRecordNode(&record, graph, &fill, 1, event), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(Instantiate(graph), stream), cudaSuccess);
  ASSERT_TRUE(gate.WaitReached());
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);  // the other branch is held by nobody
  EXPECT_EQ(memory[0], 3);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  gate.Open();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
}

// A launch comes after all work before it on its stream, and before all work after it.
TEST(Graphs, LaunchIsOneUnitOnItsStream) {
  const cudaStream_t stream = NewStream();
  Gate before;
  Gate inside;
  Log log;
  const cudaGraph_t graph = NewGraph();
  const cudaGraphNode_t first = AddHost(graph, {}, Log::Append, log.Of('g'));
  AddHost(graph, {first}, Gate::Pass, &inside);
  ASSERT_EQ(cudaLaunchHostFunc(stream, Gate::Pass, &before), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(Instantiate(graph), stream), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(stream, Log::Append, log.Of('z')), cudaSuccess);
  ASSERT_TRUE(before.WaitReached());
  EXPECT_EQ(log.text(), "");
  before.Open();
  ASSERT_TRUE(inside.WaitReached());
  EXPECT_EQ(log.text(), "g");
  inside.Open();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(log.text(), "gz");
}

// Launches of one executable graph run in turn, whatever their streams; of two, beside each other.
TEST(Graphs, LaunchesOfOneExecutableGraphRunInTurn) {
  const cudaStream_t first = NewStream(cudaStreamNonBlocking);
  const cudaStream_t second = NewStream(cudaStreamNonBlocking);
  Gate gate;
  const cudaGraph_t graph = NewGraph();
  const cudaGraphNode_t host = AddHost(graph, {}, Gate::Pass, &gate);
  const cudaGraphExec_t exec = Instantiate(graph);
  ASSERT_EQ(cudaGraphLaunch(exec, first), cudaSuccess);
  ASSERT_TRUE(gate.WaitReached());
  Log log;
  const cudaHostNodeParams letter = {Log::Append, log.Of('x')};
  // Only launches that follow have the new function.
  ASSERT_EQ(cudaGraphExecHostNodeSetParams(exec, host, &letter), cudaSuccess);
  int* const memory = static_cast<int*>(TheEngine().Allocate(8, 0));
  memory[0] = 0;
  const cudaGraph_t other = NewGraph();
  AddFill(other, {}, memory, 9);
  ASSERT_EQ(cudaGraphLaunch(Instantiate(other), second), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  EXPECT_EQ(memory[0], 9);
  ASSERT_EQ(cudaGraphLaunch(exec, second), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(second), cudaErrorNotReady);
  EXPECT_EQ(log.text(), "");
  gate.Open();
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(first), cudaSuccess);
  EXPECT_EQ(log.text(), "x");
}

TEST(Graphs, EventWaitNodeWaitsForWhatIsOutside) {
  const cudaStream_t outside = NewStream();
  const cudaStream_t stream = NewStream();
  const cudaEvent_t event = NewEvent();
  Gate gate;
  const cudaGraph_t graph = NewGraph();
  cudaGraphNode_t wait = nullptr;
  ASSERT_EQ(cudaGraphAddEventWaitNode(&wait, graph, nullptr, 0, event), cudaSuccess);
  const cudaGraphExec_t exec = Instantiate(graph);
  LaunchAndWait(exec, stream);  // never recorded: nothing to wait for
  ASSERT_EQ(cudaLaunchHostFunc(outside, Gate::Pass, &gate), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, outside), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
  ASSERT_TRUE(gate.WaitReached());
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  gate.Open();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
}

TEST(Graphs, CycleIsFoundWhenInstantiated) {
  Log log;
  const cudaGraph_t graph = NewGraph();
  const cudaGraphNode_t a = AddHost(graph, {}, Log::Append, log.Of('a'));
  const cudaGraphNode_t b = AddHost(graph, {a}, Log::Append, log.Of('b'));
  ASSERT_EQ(cudaGraphAddDependencies(graph, &b, &a, nullptr, 1), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  cudaGraphInstantiateParams params = {};
  EXPECT_EQ(cudaGraphInstantiateWithParams(&exec, graph, &params), cudaErrorInvalidValue);
  EXPECT_EQ(params.result_out, cudaGraphInstantiateInvalidStructure);
  EXPECT_NE(params.errNode_out, nullptr);
  ASSERT_EQ(cudaGraphRemoveDependencies(graph, &b, &a, nullptr, 1), cudaSuccess);
  EXPECT_EQ(cudaGraphInstantiateWithParams(&exec, graph, &params), cudaSuccess);
  EXPECT_EQ(params.result_out, cudaGraphInstantiateSuccess);
}

TEST(Graphs, HandlesThatAreNoneAreRefused) {
  const cudaGraph_t graph = NewGraph();
  int* const memory = NewDeviceInts(1);
  const cudaGraphNode_t node = AddFill(graph, {}, memory, 1);
  const cudaGraph_t other = NewGraph();
  cudaGraphNode_t made = nullptr;
  EXPECT_EQ(cudaGraphAddEmptyNode(&made, other, &node, 1), cudaErrorInvalidValue);
  const cudaGraphNode_t twice[] = {node, node};
  EXPECT_EQ(cudaGraphAddEmptyNode(&made, graph, twice, 2), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphAddEmptyNode(&made, graph, twice, 1), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroyNode(node), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroyNode(node), cudaErrorInvalidValue);
  EXPECT_EQ(CountEdges(graph), 0u);
  cudaMemsetParams params = {memory, 0, 1, 3, 1, 1};
  EXPECT_EQ(cudaGraphAddMemsetNode(&made, graph, nullptr, 0, &params), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphLaunch(nullptr, nullptr), cudaErrorInvalidValue);
  cudaGraphNodeParams conditional = {};
  conditional.type = cudaGraphNodeTypeConditional;
  EXPECT_EQ(cudaGraphAddNode(&made, other, nullptr, nullptr, 0, &conditional),
            cudaErrorNotSupported);
  cudaGetLastError();
}

TEST(Graphs, ParametersAreToldAndChanged) {
  const cudaStream_t stream = NewStream();
  int* const memory = NewDeviceInts(8);
  const cudaGraph_t graph = NewGraph();
  const cudaGraphNode_t fill = AddFill(graph, {}, memory, 1, 2);
  cudaMemsetParams params;
  ASSERT_EQ(cudaGraphMemsetNodeGetParams(fill, &params), cudaSuccess);
  EXPECT_EQ(params.dst, memory);
  EXPECT_EQ(params.width, 2u);
  const cudaGraphExec_t before = Instantiate(graph);
  params.value = 5;
  ASSERT_EQ(cudaGraphMemsetNodeSetParams(fill, &params), cudaSuccess);
  LaunchAndWait(before, stream);  // made before the change
  EXPECT_EQ(ReadInt(memory + 1), 1);
  LaunchAndWait(Instantiate(graph), stream);
  EXPECT_EQ(ReadInt(memory + 1), 5);
  cudaHostNodeParams host;
  EXPECT_EQ(cudaGraphHostNodeGetParams(fill, &host), cudaErrorInvalidValue);
  // In the executable graph.
  params.dst = memory + 4;
  ASSERT_EQ(cudaGraphExecMemsetNodeSetParams(before, fill, &params), cudaSuccess);
  LaunchAndWait(before, stream);
  EXPECT_EQ(ReadInt(memory + 4), 5);
}

TEST(Graphs, ThreeDimensionalCopy) {
  const cudaStream_t stream = NewStream();
  constexpr size_t kPitch = 16;
  std::vector<char> host(3 * 2 * 4);
  for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<char>(i);
  void* device = nullptr;
  ASSERT_EQ(cudaMalloc(&device, kPitch * 4 * 3), cudaSuccess);
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = {host.data(), 4, 4, 2};
  copy.dstPtr = {device, kPitch, kPitch, 4};
  copy.dstPos = {3, 1, 0};
  copy.extent = {4, 2, 3};
  copy.kind = cudaMemcpyHostToDevice;
  const cudaGraph_t graph = NewGraph();
  cudaGraphNode_t node = nullptr;
  ASSERT_EQ(cudaGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy), cudaSuccess);
  LaunchAndWait(Instantiate(graph), stream);
  const char* const rows = static_cast<const char*>(device);
  for (size_t z = 0; z < 3; ++z) {
    for (size_t y = 0; y < 2; ++y) {
      for (size_t x = 0; x < 4; ++x) {
        EXPECT_EQ(rows[(z * 4 + y + 1) * kPitch + x + 3], host[(z * 2 + y) * 4 + x]);
      }
    }
  }
  cudaMemcpy3DParms told;
  ASSERT_EQ(cudaGraphMemcpyNodeGetParams(node, &told), cudaSuccess);
  EXPECT_EQ(told.dstPos.x, 3u);
  EXPECT_EQ(told.extent.depth, 3u);
  copy.extent.depth = 4;  // beyond the allocation
  EXPECT_EQ(cudaGraphMemcpyNodeSetParams(node, &copy), cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST(Graphs, DisabledNodeDoesNothing) {
  const cudaStream_t stream = NewStream();
  int* const memory = NewDeviceInts(2);
  const cudaGraph_t graph = NewGraph();
  const cudaGraphNode_t fill = AddFill(graph, {}, memory, 1);
  AddFill(graph, {fill}, memory + 1, 1);
  const cudaGraphExec_t exec = Instantiate(graph);
  ASSERT_EQ(cudaGraphNodeSetEnabled(exec, fill, 0), cudaSuccess);
  unsigned enabled = 1;
  ASSERT_EQ(cudaGraphNodeGetEnabled(exec, fill, &enabled), cudaSuccess);
  EXPECT_EQ(enabled, 0u);
  LaunchAndWait(exec, stream);
  EXPECT_EQ(ReadInt(memory), 0);
  EXPECT_EQ(ReadInt(memory + 1), 1);
  ASSERT_EQ(cudaGraphNodeSetEnabled(exec, fill, 1), cudaSuccess);
  LaunchAndWait(exec, stream);
  EXPECT_EQ(ReadInt(memory), 1);
}

TEST(Graphs, ChildIsACopy) {
  const cudaStream_t stream = NewStream();
  Log log;
  const cudaGraph_t child = NewGraph();
  const cudaGraphNode_t inner = AddHost(child, {}, Log::Append, log.Of('c'));
  const cudaGraph_t graph = NewGraph();
  const cudaGraphNode_t first = AddHost(graph, {}, Log::Append, log.Of('a'));
  cudaGraphNode_t node = nullptr;
  ASSERT_EQ(cudaGraphAddChildGraphNode(&node, graph, &first, 1, child), cudaSuccess);
  AddHost(graph, {node}, Log::Append, log.Of('z'));
  AddHost(child, {inner}, Log::Append, log.Of('!'));  // too late
  EXPECT_EQ(cudaGraphDestroy(child), cudaSuccess);
  cudaGraph_t embedded = nullptr;
  ASSERT_EQ(cudaGraphChildGraphNodeGetGraph(node, &embedded), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(embedded), cudaErrorInvalidValue);
  const cudaGraphExec_t exec = Instantiate(graph);
  LaunchAndWait(exec, stream);
  EXPECT_EQ(log.text(), "acz");
  const cudaGraphNode_t inside = NodesOf(embedded)[0];
  const cudaHostNodeParams changed = {Log::Append, log.Of('C')};
  ASSERT_EQ(cudaGraphExecHostNodeSetParams(exec, inside, &changed), cudaSuccess);
  LaunchAndWait(exec, stream);
  EXPECT_EQ(log.text(), "aczaCz");
  cudaGetLastError();
}

TEST(Graphs, CloneIsItsOwnGraph) {
  Log log;
  const cudaGraph_t graph = NewGraph();
  const cudaGraphNode_t a = AddHost(graph, {}, Log::Append, log.Of('a'));
  const cudaGraphNode_t b = AddHost(graph, {a}, Log::Append, log.Of('b'));
  cudaGraph_t clone = nullptr;
  ASSERT_EQ(cudaGraphClone(&clone, graph), cudaSuccess);
  cudaGraphNode_t twin = nullptr;
  ASSERT_EQ(cudaGraphNodeFindInClone(&twin, b, clone), cudaSuccess);
  EXPECT_NE(twin, b);
  EXPECT_EQ(cudaGraphNodeFindInClone(&twin, b, graph), cudaErrorInvalidValue);
  ASSERT_EQ(cudaGraphDestroyNode(b), cudaSuccess);
  EXPECT_EQ(CountNodes(clone), 2u);
  EXPECT_EQ(CountEdges(clone), 1u);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  const cudaStream_t stream = NewStream();
  LaunchAndWait(Instantiate(clone), stream);
  EXPECT_EQ(log.text(), "ab");
  cudaGetLastError();
}

TEST(GraphUpdate, TakesTheParametersOfAGraphOfTheSameShape) {
  const cudaStream_t stream = NewStream();
  int* const memory = NewDeviceInts(2);
  const auto make = [&](unsigned value) {
    const cudaGraph_t graph = NewGraph();
    AddCopy(graph, {AddFill(graph, {}, memory, value)}, memory + 1, memory, 4);
    return graph;
  };
  const cudaGraphExec_t exec = Instantiate(make(1));
  cudaGraphExecUpdateResultInfo info;
  ASSERT_EQ(cudaGraphExecUpdate(exec, make(2), &info), cudaSuccess);
  EXPECT_EQ(info.result, cudaGraphExecUpdateSuccess);
  LaunchAndWait(exec, stream);
  EXPECT_EQ(ReadInt(memory + 1), 2);
}

TEST(GraphUpdate, RefusesAnotherShape) {
  const cudaStream_t stream = NewStream();
  int* const memory = NewDeviceInts(2);
  const cudaGraph_t graph = NewGraph();
  const cudaGraphNode_t fill = AddFill(graph, {}, memory, 1);
  AddCopy(graph, {fill}, memory + 1, memory, 4);
  const cudaGraphExec_t exec = Instantiate(graph);
  cudaGraphExecUpdateResultInfo info;

  const cudaGraph_t fewer = NewGraph();
  AddFill(fewer, {}, memory, 9);
  EXPECT_EQ(cudaGraphExecUpdate(exec, fewer, &info), cudaErrorGraphExecUpdateFailure);
  EXPECT_EQ(info.result, cudaGraphExecUpdateErrorTopologyChanged);
  EXPECT_EQ(info.errorNode, nullptr);

  const cudaGraph_t unconnected = NewGraph();
  AddFill(unconnected, {}, memory, 9);
  AddCopy(unconnected, {}, memory + 1, memory, 4);
  EXPECT_EQ(cudaGraphExecUpdate(exec, unconnected, &info), cudaErrorGraphExecUpdateFailure);
  EXPECT_EQ(info.result, cudaGraphExecUpdateErrorTopologyChanged);

  const cudaGraph_t types = NewGraph();
  const cudaGraphNode_t wrong = AddFill(types, {AddFill(types, {}, memory, 9)}, memory + 1, 9);
  EXPECT_EQ(cudaGraphExecUpdate(exec, types, &info), cudaErrorGraphExecUpdateFailure);
  EXPECT_EQ(info.result, cudaGraphExecUpdateErrorNodeTypeChanged);
  EXPECT_EQ(info.errorNode, wrong);

  LaunchAndWait(exec, stream);  // as it was
  EXPECT_EQ(ReadInt(memory + 1), 1);
  cudaGetLastError();
}

TEST(GraphMemory, LivesFromItsLaunchToItsFree) {
  const cudaStream_t stream = NewStream();
  const cudaGraph_t graph = NewGraph();
  cudaMemAllocNodeParams params = AllocOf(1 << 20);
  cudaGraphNode_t alloc = nullptr;
  ASSERT_EQ(cudaGraphAddMemAllocNode(&alloc, graph, nullptr, 0, &params), cudaSuccess);
  ASSERT_NE(params.dptr, nullptr);
  AddFill(graph, {alloc}, params.dptr, 6);
  const auto used = [] {
    uint64_t bytes = 0;
    EXPECT_EQ(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &bytes),
              cudaSuccess);
    return bytes;
  };
  EXPECT_EQ(used(), 0u);
  const cudaGraphExec_t exec = Instantiate(graph);
  cudaGraphExec_t second = nullptr;
  EXPECT_EQ(cudaGraphInstantiate(&second, graph, 0), cudaErrorInvalidValue);  // only one at a time
  cudaGraph_t clone = nullptr;
  EXPECT_EQ(cudaGraphClone(&clone, graph), cudaErrorNotSupported);
  LaunchAndWait(exec, stream);
  EXPECT_EQ(used(), uint64_t{1} << 20);
  EXPECT_EQ(ReadInt(static_cast<int*>(params.dptr)), 6);
  EXPECT_EQ(cudaGraphLaunch(exec, stream), cudaErrorInvalidValue);  // not freed yet
  EXPECT_EQ(cudaFreeAsync(params.dptr, stream), cudaSuccess);
  EXPECT_EQ(used(), 0u);
  EXPECT_EQ(cudaFreeAsync(params.dptr, stream), cudaErrorInvalidValue);
  LaunchAndWait(exec, stream);
  EXPECT_EQ(cudaFree(params.dptr), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  // Launches of this one free what the previous one left.
  const cudaGraphExec_t freeing = Instantiate(graph, cudaGraphInstantiateFlagAutoFreeOnLaunch);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cudaGraphLaunch(freeing, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaFree(params.dptr), cudaSuccess);
  uint64_t reserved = 1;
  EXPECT_EQ(cudaDeviceGraphMemTrim(0), cudaSuccess);
  EXPECT_EQ(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &reserved),
            cudaSuccess);
  EXPECT_EQ(reserved, 0u);
  cudaGetLastError();
}

TEST(GraphMemory, FreedInItsGraphItCanBeLaunchedAgain) {
  const cudaStream_t stream = NewStream();
  const cudaGraph_t graph = NewGraph();
  cudaMemAllocNodeParams params = AllocOf(64);
  cudaGraphNode_t alloc = nullptr;
  ASSERT_EQ(cudaGraphAddMemAllocNode(&alloc, graph, nullptr, 0, &params), cudaSuccess);
  cudaGraphNode_t free_node = nullptr;
  ASSERT_EQ(cudaGraphAddMemFreeNode(&free_node, graph, &alloc, 1, params.dptr), cudaSuccess);
  cudaGraphNode_t twice = nullptr;
  EXPECT_EQ(cudaGraphAddMemFreeNode(&twice, graph, &alloc, 1, params.dptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphDestroyNode(free_node), cudaErrorNotSupported);
  const cudaGraphExec_t exec = Instantiate(graph);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaFree(params.dptr), cudaErrorInvalidValue);
  cudaGetLastError();
}

// A destructor runs when the last holder is gone: the application, graphs, executable graphs, and
// launches that still run.
TEST(GraphUserObjects, LiveAsLongAsAnybodyNeedsThem) {
  const cudaStream_t stream = NewStream();
  static std::promise<void> gone;
  static std::atomic<bool> destroyed{false};
  cudaUserObject_t object = nullptr;
  const auto destroy = [](void*) {
    destroyed = true;
    gone.set_value();
  };
  ASSERT_EQ(cudaUserObjectCreate(&object, &gone, destroy, 1, cudaUserObjectNoDestructorSync),
            cudaSuccess);
  Gate gate;
  const cudaGraph_t graph = NewGraph();
  AddHost(graph, {}, Gate::Pass, &gate);
  ASSERT_EQ(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove), cudaSuccess);
  EXPECT_EQ(cudaUserObjectRelease(object, 1), cudaErrorInvalidValue);  // it was moved
  const cudaGraphExec_t exec = Instantiate(graph);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_FALSE(destroyed);
  ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
  ASSERT_TRUE(gate.WaitReached());
  ASSERT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_FALSE(destroyed);
  gate.Open();
  EXPECT_EQ(gone.get_future().wait_for(kSoon), std::future_status::ready);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  cudaGetLastError();
}

TEST(Graphs, AreWrittenAsDot) {
  Log log;
  const cudaGraph_t graph = NewGraph();
  AddHost(graph, {AddFill(graph, {}, NewDeviceInts(1), 1)}, Log::Append, log.Of('a'));
  const std::string path = testing::TempDir() + "graph-" + std::to_string(getpid()) + ".dot";
  ASSERT_EQ(cudaGraphDebugDotPrint(graph, path.c_str(), 0), cudaSuccess);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_NE(text.str().find("digraph"), std::string::npos);
  EXPECT_NE(text.str().find("MEMSET"), std::string::npos);
  EXPECT_NE(text.str().find(" -> "), std::string::npos);
  EXPECT_EQ(text.str().find("handle"), std::string::npos);
  remove(path.c_str());
}

TEST(Graphs, KernelNodeTakesItsTimeAndItsPriority) {
  const cudaStream_t stream = NewStream();
  TestKernel kernel("some_kernel");
  cudaKernelNodeParams params = {};
  params.func = const_cast<void*>(kernel.function());
  params.gridDim = dim3(2);
  params.blockDim = dim3(32);
  const cudaGraph_t graph = NewGraph();
  cudaGraphNode_t node = nullptr;
  ASSERT_EQ(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &params), cudaSuccess);
  cudaLaunchAttributeValue value = {};
  value.priority = -2;
  ASSERT_EQ(cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributePriority, &value),
            cudaSuccess);
  cudaLaunchAttributeValue told = {};
  ASSERT_EQ(cudaGraphKernelNodeGetAttribute(node, cudaLaunchAttributePriority, &told), cudaSuccess);
  EXPECT_EQ(told.priority, -2);
  const cudaGraphExec_t exec = Instantiate(graph, cudaGraphInstantiateFlagUseNodePriority);
  unsigned long long flags = 0;
  ASSERT_EQ(cudaGraphExecGetFlags(exec, &flags), cudaSuccess);
  EXPECT_EQ(flags, static_cast<unsigned long long>(cudaGraphInstantiateFlagUseNodePriority));
  LaunchAndWait(exec, stream);
  params.blockDim = dim3(2000);
  EXPECT_EQ(cudaGraphExecKernelNodeSetParams(exec, node, &params), cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST(Graphs, TheDriverBuildsTheSameOnes) {
  const cudaStream_t stream = NewStream();
  int* const memory = NewDeviceInts(2);
  CUgraph graph = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  CUDA_MEMSET_NODE_PARAMS fill = {reinterpret_cast<CUdeviceptr>(memory), 0, 4, 4, 1, 1};
  CUgraphNode first = nullptr;
  ASSERT_EQ(cuGraphAddMemsetNode(&first, graph, nullptr, 0, &fill, nullptr), CUDA_SUCCESS);
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = reinterpret_cast<CUdeviceptr>(memory);
  copy.dstDevice = reinterpret_cast<CUdeviceptr>(memory + 1);
  copy.WidthInBytes = 4;
  copy.Height = copy.Depth = 1;
  CUgraphNode second = nullptr;
  ASSERT_EQ(cuGraphAddMemcpyNode(&second, graph, &first, 1, &copy, nullptr), CUDA_SUCCESS);
  cudaMemcpy3DParms told;
  ASSERT_EQ(cudaGraphMemcpyNodeGetParams(reinterpret_cast<cudaGraphNode_t>(second), &told),
            cudaSuccess);
  EXPECT_EQ(told.srcPtr.ptr, memory);
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, reinterpret_cast<CUstream>(stream)), CUDA_SUCCESS);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(ReadInt(memory + 1), 4);
  void* function = nullptr;
  ASSERT_EQ(cuGetProcAddress("cuGraphLaunch", &function, 13000, 0, nullptr), CUDA_SUCCESS);
  EXPECT_NE(function, nullptr);
}

}  // namespace
}  // namespace gordian::emu
