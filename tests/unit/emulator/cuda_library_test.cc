// Libraries that a program loads itself, batches, managed memory, attributes that are kept.
#include <cuda.h>

#include <cstring>

#include "tests/unit/emulator/cuda_test_support.h"

namespace gordian::emu {
namespace {

constexpr char kPtx[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry add(.param .u64 p)\n{\n ret;\n}\n"
    ".visible .entry sub(.param .u64 p)\n{\n ret;\n}\n";

cudaLibrary_t Load() {
  cudaLibrary_t library = nullptr;
  EXPECT_EQ(cudaLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0),
            cudaSuccess);
  return library;
}

cudaError_t Launch(const void* kernel) {
  return cudaLaunchKernel(kernel, dim3(1), dim3(32), nullptr, 0, nullptr);
}

TEST(Library, ItsKernelsRunUntilItIsUnloaded) {
  const cudaLibrary_t library = Load();
  unsigned count = 0;
  ASSERT_EQ(cudaLibraryGetKernelCount(&count, library), cudaSuccess);
  ASSERT_EQ(count, 2U);
  cudaKernel_t kernels[2] = {};
  ASSERT_EQ(cudaLibraryEnumerateKernels(kernels, 2, library), cudaSuccess);
  cudaKernel_t add = nullptr;
  cudaKernel_t none = nullptr;
  ASSERT_EQ(cudaLibraryGetKernel(&add, library, "add"), cudaSuccess);
  EXPECT_EQ(add, kernels[0]);
  EXPECT_EQ(cudaLibraryGetKernel(&none, library, "mul"), cudaErrorSymbolNotFound);
  const char* name = nullptr;
  ASSERT_EQ(cudaFuncGetName(&name, add), cudaSuccess);
  EXPECT_STREQ(name, "add");
  EXPECT_EQ(Launch(add), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaLibraryUnload(library), cudaSuccess);
  EXPECT_EQ(Launch(add), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaLibraryUnload(library), cudaErrorInvalidResourceHandle);
}

TEST(Library, WhatIsNoCodeIsRefused) {
  cudaLibrary_t library = nullptr;
  EXPECT_EQ(cudaLibraryLoadData(&library, "no code at all, only text", nullptr, nullptr, 0, nullptr,
                                nullptr, 0),
            cudaErrorInvalidKernelImage);
  EXPECT_EQ(cudaLibraryLoadFromFile(&library, "/nowhere", nullptr, nullptr, 0, nullptr, nullptr, 0),
            cudaErrorFileNotFound);
  const cudaLibrary_t loaded = Load();
  void* address = nullptr;
  EXPECT_EQ(cudaLibraryGetManaged(&address, nullptr, loaded, "none"), cudaErrorSymbolNotFound);
  EXPECT_EQ(cudaLibraryUnload(loaded), cudaSuccess);
}

TEST(Library, AttributesOfOneKernelAreNotAnothers) {
  const cudaLibrary_t library = Load();
  cudaKernel_t add = nullptr;
  cudaKernel_t sub = nullptr;
  ASSERT_EQ(cudaLibraryGetKernel(&add, library, "add"), cudaSuccess);
  ASSERT_EQ(cudaLibraryGetKernel(&sub, library, "sub"), cudaSuccess);
  constexpr auto kShared = cudaFuncAttributeMaxDynamicSharedMemorySize;
  ASSERT_EQ(cudaKernelSetAttributeForDevice(add, kShared, 100'000, 0), cudaSuccess);
  EXPECT_EQ(cudaKernelSetAttributeForDevice(add, kShared, 300'000, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaKernelSetAttributeForDevice(add, kShared, 100'000, 99), cudaErrorInvalidDevice);
  cudaFuncAttributes attributes;
  ASSERT_EQ(cudaFuncGetAttributes(&attributes, add), cudaSuccess);
  EXPECT_EQ(attributes.maxDynamicSharedSizeBytes, 100'000);
  ASSERT_EQ(cudaFuncGetAttributes(&attributes, sub), cudaSuccess);
  EXPECT_EQ(attributes.maxDynamicSharedSizeBytes, 49'152);
  const TestKernel registered("_Z4workv");
  ASSERT_EQ(cudaFuncSetAttribute(registered.function(), kShared, 65'536), cudaSuccess);
  ASSERT_EQ(cudaFuncGetAttributes(&attributes, registered.function()), cudaSuccess);
  EXPECT_EQ(attributes.maxDynamicSharedSizeBytes, 65'536);
  EXPECT_EQ(cudaLibraryUnload(library), cudaSuccess);
}

TEST(Occupancy, ClustersAndSharedMemory) {
  const TestKernel kernel("_Z4workv");
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {2, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(64);
  config.blockDim = dim3(1024);
  config.dynamicSmemBytes = 200'000;
  config.attrs = &cluster;
  config.numAttrs = 1;
  int clusters = 0;
  int sms = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);
  ASSERT_EQ(cudaOccupancyMaxActiveClusters(&clusters, kernel.function(), &config), cudaSuccess);
  EXPECT_EQ(clusters, sms / 2);
  cluster.val.clusterDim.x = 16;
  EXPECT_EQ(cudaOccupancyMaxActiveClusters(&clusters, kernel.function(), &config),
            cudaErrorInvalidClusterSize);
  int size = 0;
  ASSERT_EQ(cudaOccupancyMaxPotentialClusterSize(&size, kernel.function(), &config), cudaSuccess);
  EXPECT_EQ(size, 8);
  ASSERT_EQ(
      cudaFuncSetAttribute(kernel.function(), cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
      cudaSuccess);
  EXPECT_EQ(cudaOccupancyMaxActiveClusters(&clusters, kernel.function(), &config), cudaSuccess);
  ASSERT_EQ(cudaOccupancyMaxPotentialClusterSize(&size, kernel.function(), &config), cudaSuccess);
  EXPECT_EQ(size, 16);
  size_t bytes = 0;
  ASSERT_EQ(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, kernel.function(), 2, 512),
            cudaSuccess);
  int blocks = 0;
  ASSERT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel.function(), 512, bytes),
            cudaSuccess);
  EXPECT_EQ(blocks, 2);
  EXPECT_EQ(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, kernel.function(), 5, 512),
            cudaErrorInvalidValue);
}

class Batch : public testing::Test {
 protected:
  void SetUp() override {
    stream_ = NewStream();
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(cudaMallocHost(&host_[i], kBytes), cudaSuccess);
      ASSERT_EQ(cudaMalloc(&device_[i], kBytes), cudaSuccess);
      memset(host_[i], 1 + i, kBytes);
    }
  }
  void TearDown() override {
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(cudaFreeHost(host_[i]), cudaSuccess);
      EXPECT_EQ(cudaFree(device_[i]), cudaSuccess);
    }
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }
  cudaError_t Copy(cudaMemcpySrcAccessOrder order, cudaStream_t stream) {
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = order;
    const size_t sizes[] = {kBytes, kBytes};
    size_t start = 0;
    return cudaMemcpyBatchAsync(device_, const_cast<const void**>(host_), sizes, 2, &attributes,
                                &start, 1, stream);
  }
  char FirstByte(int i) {
    char byte = 0;
    EXPECT_EQ(cudaMemcpy(&byte, device_[i], 1, cudaMemcpyDeviceToHost), cudaSuccess);
    return byte;
  }

  static constexpr size_t kBytes = 64;
  cudaStream_t stream_ = nullptr;
  void* host_[2] = {};
  void* device_[2] = {};
};

TEST_F(Batch, SourcesAreReadInStreamOrderOrDuringTheCall) {
  for (const bool during : {false, true}) {
    memset(host_[1], 2, kBytes);
    const HeldOpPtr held = Hold(stream_);
    ASSERT_EQ(Copy(during ? cudaMemcpySrcAccessOrderDuringApiCall : cudaMemcpySrcAccessOrderStream,
                   stream_),
              cudaSuccess);
    memset(host_[1], 9, kBytes);
    held->Release();
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(FirstByte(0), 1);
    EXPECT_EQ(FirstByte(1), during ? 2 : 9);
  }
}

TEST_F(Batch, NeedsAStreamAndAnOrder) {
  EXPECT_EQ(Copy(cudaMemcpySrcAccessOrderStream, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(Copy(cudaMemcpySrcAccessOrderInvalid, stream_), cudaErrorInvalidValue);
  EXPECT_EQ(Copy(cudaMemcpySrcAccessOrderStream, stream_), cudaSuccess);
  EXPECT_EQ(Copy(cudaMemcpySrcAccessOrderStream, cudaStreamPerThread), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_F(Batch, BoxesMayBeTightOrNot) {
  auto* const from = static_cast<char*>(host_[0]);
  for (size_t i = 0; i < kBytes; ++i) from[i] = static_cast<char>(i);
  cudaMemcpy3DBatchOp operation{};
  operation.src.type = operation.dst.type = cudaMemcpyOperandTypePointer;
  operation.src.op.ptr.ptr = from;
  operation.src.op.ptr.rowLength = 8;
  operation.src.op.ptr.layerHeight = 4;
  operation.dst.op.ptr.ptr = device_[0];
  operation.extent = {3, 2, 2};
  operation.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  ASSERT_EQ(cudaMemcpy3DBatchAsync(1, &operation, 0, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  char to[12];
  ASSERT_EQ(cudaMemcpy(to, device_[0], sizeof(to), cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(to[2], 2);
  EXPECT_EQ(to[3], 8);    // the second row
  EXPECT_EQ(to[6], 32);   // the second layer
  EXPECT_EQ(to[11], 42);  // its end
  operation.src.op.ptr.rowLength = 2;
  EXPECT_EQ(cudaMemcpy3DBatchAsync(1, &operation, 0, stream_), cudaErrorInvalidValue);
}

TEST(Managed, AdviceIsToldOfARangeWhereAllOfItHasIt) {
  constexpr size_t kPage = 4096;
  void* memory = nullptr;
  ASSERT_EQ(cudaMallocManaged(&memory, 4 * kPage, cudaMemAttachGlobal), cudaSuccess);
  auto* const bytes = static_cast<char*>(memory);
  const cudaMemLocation on_device{cudaMemLocationTypeDevice, {1}};
  ASSERT_EQ(cudaMemAdvise(bytes, 2 * kPage, cudaMemAdviseSetReadMostly, on_device), cudaSuccess);
  ASSERT_EQ(cudaMemAdvise(bytes, 4 * kPage, cudaMemAdviseSetAccessedBy, on_device), cudaSuccess);
  int value = -1;
  constexpr auto kMostly = cudaMemRangeAttributeReadMostly;
  ASSERT_EQ(cudaMemRangeGetAttribute(&value, 4, kMostly, bytes, 2 * kPage), cudaSuccess);
  EXPECT_EQ(value, 1);
  ASSERT_EQ(cudaMemRangeGetAttribute(&value, 4, kMostly, bytes, 3 * kPage), cudaSuccess);
  EXPECT_EQ(value, 0);
  int accessors[2] = {};
  ASSERT_EQ(cudaMemRangeGetAttribute(accessors, sizeof(accessors), cudaMemRangeAttributeAccessedBy,
                                     bytes, 4 * kPage),
            cudaSuccess);
  EXPECT_EQ(accessors[0], 1);
  EXPECT_EQ(accessors[1], cudaInvalidDeviceId);
  EXPECT_EQ(cudaMemRangeGetAttribute(&value, 2, kMostly, bytes, kPage), cudaErrorInvalidValue);
  void* plain = nullptr;
  ASSERT_EQ(cudaMalloc(&plain, kPage), cudaSuccess);
  EXPECT_EQ(cudaMemRangeGetAttribute(&value, 4, kMostly, plain, kPage), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(plain), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST(Managed, PrefetchesOfABatchGoToTheirPlaces) {
  constexpr size_t kPage = 4096;
  void* memory = nullptr;
  ASSERT_EQ(cudaMallocManaged(&memory, 4 * kPage, cudaMemAttachGlobal), cudaSuccess);
  auto* const bytes = static_cast<char*>(memory);
  const cudaStream_t stream = NewStream();
  void* parts[] = {bytes, bytes + kPage, bytes + 2 * kPage};
  size_t sizes[] = {kPage, kPage, kPage};
  cudaMemLocation places[] = {{cudaMemLocationTypeDevice, {1}}, {cudaMemLocationTypeHost, {0}}};
  size_t starts[] = {0, 2};
  ASSERT_EQ(cudaMemPrefetchBatchAsync(parts, sizes, 3, places, starts, 2, 0, stream), cudaSuccess);
  const auto last = [](const void* at, size_t size) {
    int where = 0;
    EXPECT_EQ(cudaMemRangeGetAttribute(&where, sizeof(where),
                                       cudaMemRangeAttributeLastPrefetchLocation, at, size),
              cudaSuccess);
    return where;
  };
  EXPECT_EQ(last(bytes, 2 * kPage), 1);
  EXPECT_EQ(last(bytes + 2 * kPage, kPage), cudaCpuDeviceId);
  EXPECT_EQ(last(bytes, 3 * kPage), cudaInvalidDeviceId);
  starts[1] = 0;
  EXPECT_EQ(cudaMemPrefetchBatchAsync(parts, sizes, 3, places, starts, 2, 0, stream),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemDiscardBatchAsync(parts, sizes, 3, 0, stream), cudaSuccess);
  EXPECT_EQ(cudaMemDiscardBatchAsync(parts, sizes, 3, 0, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamAttachMemAsync(stream, memory, 0, cudaMemAttachSingle), cudaSuccess);
  EXPECT_EQ(cudaStreamAttachMemAsync(stream, bytes + 1, 0, cudaMemAttachSingle),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST(StreamAttributes, AreKeptCopiedAndChecked) {
  const cudaStream_t first = NewStream();
  const cudaStream_t second = NewStream();
  cudaLaunchAttributeValue value{};
  value.accessPolicyWindow = {reinterpret_cast<void*>(4096), 1024, 0.5F,
                              cudaAccessPropertyPersisting, cudaAccessPropertyStreaming};
  constexpr auto kWindow = cudaLaunchAttributeAccessPolicyWindow;
  ASSERT_EQ(cudaStreamSetAttribute(first, kWindow, &value), cudaSuccess);
  value.accessPolicyWindow.hitRatio = 2;
  EXPECT_EQ(cudaStreamSetAttribute(first, kWindow, &value), cudaErrorInvalidValue);
  value = {};
  value.priority = -2;
  ASSERT_EQ(cudaStreamSetAttribute(first, cudaLaunchAttributePriority, &value), cudaSuccess);
  ASSERT_EQ(cudaStreamGetAttribute(second, kWindow, &value), cudaSuccess);
  EXPECT_EQ(value.accessPolicyWindow.num_bytes, 0U);
  ASSERT_EQ(cudaStreamCopyAttributes(second, first), cudaSuccess);
  ASSERT_EQ(cudaStreamGetAttribute(second, kWindow, &value), cudaSuccess);
  EXPECT_EQ(value.accessPolicyWindow.num_bytes, 1024U);
  EXPECT_EQ(value.accessPolicyWindow.missProp, cudaAccessPropertyStreaming);
  int priority = 0;
  ASSERT_EQ(cudaStreamGetPriority(second, &priority), cudaSuccess);
  EXPECT_EQ(priority, -2);
  EXPECT_EQ(cudaStreamGetAttribute(first, cudaLaunchAttributeCooperative, &value),
            cudaErrorInvalidValue);
}

TEST(Settings, AtomicOperationsAndFlushes) {
  const cudaAtomicOperation operations[] = {cudaAtomicOperationIntegerAdd, cudaAtomicOperationCAS};
  unsigned can[2] = {};
  ASSERT_EQ(cudaDeviceGetP2PAtomicCapabilities(can, operations, 2, 0, 1), cudaSuccess);
  EXPECT_NE(can[0] & cudaAtomicCapabilityReduction, 0U);
  EXPECT_NE(can[1] & cudaAtomicCapabilityScalar128, 0U);
  EXPECT_EQ(cudaDeviceGetP2PAtomicCapabilities(can, operations, 2, 0, 0), cudaErrorInvalidDevice);
  ASSERT_EQ(cudaDeviceGetHostAtomicCapabilities(can, operations, 2, 0), cudaSuccess);
  EXPECT_EQ(can[0], 0U);
  EXPECT_EQ(cudaDeviceGetHostAtomicCapabilities(can, operations, 0, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice,
                                               cudaFlushGPUDirectRDMAWritesToOwner),
            cudaSuccess);
  EXPECT_EQ(cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice,
                                               static_cast<cudaFlushGPUDirectRDMAWritesScope>(1)),
            cudaErrorInvalidValue);
}

TEST(Settings, SynchronousCopiesOfMarkedMemoryWait) {
  void* memory[2] = {};
  for (void*& each : memory) ASSERT_EQ(cudaMalloc(&each, 64), cudaSuccess);
  const HeldOpPtr held = Hold(nullptr);
  // Between devices' memory a copy does not wait, unless it is told to.
  EXPECT_EQ(cudaMemcpy(memory[0], memory[1], 64, cudaMemcpyDeviceToDevice), cudaSuccess);
  const unsigned on = 1;
  ASSERT_EQ(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                  reinterpret_cast<CUdeviceptr>(memory[0])),
            CUDA_SUCCESS);
  Call copy([&] { return cudaMemcpy(memory[0], memory[1], 64, cudaMemcpyDeviceToDevice); });
  EXPECT_TRUE(copy.Blocks());
  held->Release();
  EXPECT_EQ(copy.Result(), cudaSuccess);
  for (void* each : memory) EXPECT_EQ(cudaFree(each), cudaSuccess);
}

TEST(Log, WhatIsNotEmulatedIsSaidOnceAndLogged) {
  cudaLogIterator from = 0;
  ASSERT_EQ(cudaLogsCurrent(&from, 0), cudaSuccess);
  std::string heard;
  cudaLogsCallbackHandle handle = nullptr;
  ASSERT_EQ(cudaLogsRegisterCallback(
                [](void* data, cudaLogLevel, char* message, size_t length) {
                  static_cast<std::string*>(data)->append(message, length);
                },
                &heard, &handle),
            cudaSuccess);
  char text[1024];
  size_t bytes = sizeof(text);
  ASSERT_EQ(cudaLogsDumpToMemory(&from, text, &bytes, 0), cudaSuccess);
  EXPECT_EQ(bytes, 0U);
  testing::internal::CaptureStderr();
  EXPECT_EQ(cudaFreeArray(nullptr), cudaErrorNotSupported);
  EXPECT_EQ(cudaFreeArray(nullptr), cudaErrorNotSupported);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("cudaFreeArray is not emulated"), strlen("gordian emulator: "));
  EXPECT_NE(said.find("must run on GPUs"), std::string::npos);
  EXPECT_EQ(said.find('\n'), said.size() - 1);  // one line
  bytes = sizeof(text);
  ASSERT_EQ(cudaLogsDumpToMemory(&from, text, &bytes, 0), cudaSuccess);
  EXPECT_EQ("gordian emulator: " + std::string(text, bytes), said);
  EXPECT_EQ(heard, std::string(text, bytes));
  bytes = 4;
  EXPECT_EQ(cudaLogsDumpToMemory(nullptr, text, &bytes, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaLogsUnregisterCallback(handle), cudaSuccess);
  EXPECT_EQ(cudaLogsUnregisterCallback(handle), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace gordian::emu
