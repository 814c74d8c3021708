#include <cuda.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/unit/emulator/cuda_test_support.h"

extern "C" {
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*);
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, void*);
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*);
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int);
}

namespace gordian::emu {
namespace {

[[maybe_unused]] const bool kSettings = [] {
  setenv("CUDA_VISIBLE_DEVICES", "4,2,7,99,1", 1);
  return true;
}();

TEST(Devices, VisibleOnesInTheirOrder) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 3);  // the list ends at 99
  int bus[3] = {};
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(cudaDeviceGetAttribute(&bus[i], cudaDevAttrPciBusId, i), cudaSuccess);
  }
  EXPECT_EQ(bus[0] - bus[1], 2);
  EXPECT_EQ(bus[2] - bus[0], 3);
  char text[32];
  ASSERT_EQ(cudaDeviceGetPCIBusId(text, sizeof(text), 2), cudaSuccess);
  int found = -1;
  ASSERT_EQ(cudaDeviceGetByPCIBusId(&found, text), cudaSuccess);
  EXPECT_EQ(found, 2);
}

TEST(Devices, Properties) {
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 1), cudaSuccess);
  EXPECT_EQ(properties.multiProcessorCount, 132);
  EXPECT_EQ(properties.major, 9);
  EXPECT_EQ(properties.minor, 0);
  EXPECT_EQ(properties.warpSize, 32);
  EXPECT_NE(strstr(properties.name, "emulator"), nullptr);
  CUuuid uuid;
  ASSERT_EQ(cuDeviceGetUuid(&uuid, 1), CUDA_SUCCESS);
  EXPECT_EQ(memcmp(&uuid, &properties.uuid, sizeof(uuid)), 0);
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 3), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetDeviceProperties(nullptr, 0), cudaErrorInvalidValue);
}

TEST(Devices, CurrentDeviceIsThePerThreadContext) {
  ASSERT_EQ(cudaSetDevice(2), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(3), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  int device = -1;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 2);
  std::thread([] {
    CUcontext context = nullptr;
    EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    EXPECT_EQ(context, nullptr);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    CUstream stream = nullptr;
    EXPECT_EQ(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
    int own = -1;
    EXPECT_EQ(cudaGetDevice(&own), cudaSuccess);
    EXPECT_EQ(own, 0);
    EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    EXPECT_EQ(context, nullptr);  // asking made none, working does
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    EXPECT_NE(context, nullptr);
  }).join();
  // The driver's view of the same thread.
  CUcontext second = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&second, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxPushCurrent(second), CUDA_SUCCESS);
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 1);
  CUcontext popped = nullptr;
  ASSERT_EQ(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
  EXPECT_EQ(popped, second);
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 2);
  EXPECT_EQ(cuCtxSetCurrent(reinterpret_cast<CUcontext>(&device)), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST(Devices, Peers) {
  int can = -1;
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 1), cudaSuccess);
  EXPECT_EQ(can, 1);
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 0), cudaSuccess);
  EXPECT_EQ(can, 0);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaSuccess);
  EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessUnsupported);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(3, 0), cudaErrorInvalidDevice);
}

TEST(Devices, ErrorTexts) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument");
  EXPECT_STREQ(cudaGetErrorString(static_cast<cudaError_t>(12345)), "unrecognized error code");
  const char* text = nullptr;
  EXPECT_EQ(cuGetErrorName(CUDA_ERROR_NOT_READY, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "CUDA_ERROR_NOT_READY");
  EXPECT_EQ(cuGetErrorString(static_cast<CUresult>(12345), &text), CUDA_ERROR_INVALID_VALUE);
  int version = 0;
  EXPECT_EQ(cudaRuntimeGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, CUDART_VERSION);
}

TEST(EntryPoints, ByName) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status;
  ASSERT_EQ(cuGetProcAddress("cuMemAlloc", &function, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status),
            CUDA_SUCCESS);
  EXPECT_EQ(function, reinterpret_cast<void*>(&cuMemAlloc));
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
  EXPECT_EQ(cuGetProcAddress("cuNoSuchThing", &function, 12000, 0, &status), CUDA_SUCCESS);
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(cuGetProcAddress("cuLaunchKernelEx", &function, 11000, 0, &status), CUDA_SUCCESS);
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);

  cudaDriverEntryPointQueryResult result;
  ASSERT_EQ(cudaGetDriverEntryPointByVersion("cuStreamQuery", &function, 12000, cudaEnableDefault,
                                             &result),
            cudaSuccess);
  EXPECT_EQ(result, cudaDriverEntryPointSuccess);
  auto* query = reinterpret_cast<decltype(&cuStreamQuery)>(function);
  const HeldOpPtr held = Hold(cudaStreamPerThread);
  EXPECT_EQ(query(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
  ASSERT_EQ(cudaGetDriverEntryPointByVersion("cuStreamQuery", &function, 12000,
                                             cudaEnablePerThreadDefaultStream, &result),
            cudaSuccess);
  query = reinterpret_cast<decltype(&cuStreamQuery)>(function);
  EXPECT_EQ(query(nullptr), CUDA_ERROR_NOT_READY);
  std::thread([query] {
    cudaSetDevice(0);
    EXPECT_EQ(query(nullptr), CUDA_SUCCESS);
  }).join();
  held->Release();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &function, 13000, cudaEnableDefault,
                                             &result),
            cudaSuccess);
  EXPECT_EQ(result, cudaDriverEntryPointSymbolNotFound);
  EXPECT_EQ(function, nullptr);
}

TEST(Kernels, RegisteredOnesRunAndOthersDoNot) {
  const cudaStream_t stream = NewStream();
  static char unknown;
  EXPECT_EQ(cudaLaunchKernel(&unknown, dim3(1), dim3(1), nullptr, 0, stream),
            cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaLaunchKernel(nullptr, dim3(1), dim3(1), nullptr, 0, stream),
            cudaErrorInvalidDeviceFunction);
  const TestKernel kernel("_Z4workPfi");
  EXPECT_EQ(cudaLaunchKernel(kernel.function(), dim3(8), dim3(128), nullptr, 0, stream),
            cudaSuccess);
  cudaKernel_t handle = nullptr;
  ASSERT_EQ(__cudaGetKernel(&handle, kernel.function()), cudaSuccess);
  EXPECT_EQ(__cudaLaunchKernel(handle, dim3(1), dim3(1), nullptr, 0, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  const char* name = nullptr;
  ASSERT_EQ(cudaFuncGetName(&name, kernel.function()), cudaSuccess);
  EXPECT_STREQ(name, "_Z4workPfi");
  EXPECT_EQ(cudaLaunchKernel(kernel.function(), dim3(0), dim3(1), nullptr, 0, stream),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaLaunchKernel(kernel.function(), dim3(1), dim3(1025), nullptr, 0, stream),
            cudaErrorInvalidValue);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaLaunchKernel(kernel.function(), dim3(1), dim3(1), nullptr, 0, stream),
            cudaErrorInvalidResourceHandle);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
}

TEST(Kernels, BusyKernelTakesItsFirstArgument) {
  const TestKernel busy("_Z15gordian_busy_usm");
  uint64_t microseconds = 80'000;
  void* arguments[] = {&microseconds};
  const auto before = std::chrono::steady_clock::now();
  ASSERT_EQ(cudaLaunchKernel(busy.function(), dim3(1), dim3(1), arguments, 0, nullptr),
            cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_GE(std::chrono::steady_clock::now() - before, milliseconds(79));
  EXPECT_EQ(cudaLaunchKernel(busy.function(), dim3(1), dim3(1), nullptr, 0, nullptr),
            cudaErrorInvalidValue);
}

TEST(Kernels, CallConfigurationIsAStackPerThread) {
  int marker = 0;
  ASSERT_EQ(__cudaPushCallConfiguration(dim3(2, 3), dim3(4), 5, &marker), 0U);
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  void* stream = nullptr;
  std::thread([&] {
    EXPECT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared_bytes, &stream),
              cudaErrorMissingConfiguration);
  }).join();
  ASSERT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared_bytes, &stream), cudaSuccess);
  EXPECT_EQ(grid.y, 3U);
  EXPECT_EQ(block.x, 4U);
  EXPECT_EQ(shared_bytes, 5U);
  EXPECT_EQ(stream, &marker);
}

TEST(Kernels, DeviceVariables) {
  static int shadow[4];
  void** const module = __cudaRegisterFatBinary(nullptr);
  __cudaRegisterVar(module, reinterpret_cast<char*>(shadow), nullptr, "shadow", 0, sizeof(shadow),
                    0, 0);
  const int source[2] = {8, 9};
  int back[4] = {};
  ASSERT_EQ(cudaMemcpyToSymbol(shadow, source, 8, 8, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpyFromSymbol(back, shadow, 16, 0, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(back[1], 0);
  EXPECT_EQ(back[3], 9);
  EXPECT_EQ(cudaMemcpyToSymbol(shadow, source, 8, 12, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  __cudaUnregisterFatBinary(module);
  EXPECT_EQ(cudaMemcpyToSymbol(shadow, source, 8, 0, cudaMemcpyHostToDevice),
            cudaErrorInvalidSymbol);
}

}  // namespace
}  // namespace gordian::emu
