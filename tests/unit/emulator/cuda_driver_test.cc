// The driver API where it is not the runtime's twin: entry points, modules, virtual memory.
#include <cuda.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "tests/unit/emulator/cuda_test_support.h"

namespace gordian::emu {
namespace {

class Driver : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  }
};

TEST_F(Driver, EntryPointsByVersionAndStream) {
  void* old_form = nullptr;
  void* new_form = nullptr;
  void* per_thread = nullptr;
  CUdriverProcAddressQueryResult result;
  ASSERT_EQ(cuGetProcAddress("cuStreamWaitValue32", &old_form, 8000, 0, &result), CUDA_SUCCESS);
  EXPECT_EQ(result, CU_GET_PROC_ADDRESS_SUCCESS);
  ASSERT_EQ(cuGetProcAddress("cuStreamWaitValue32", &new_form, 13000, 0, &result), CUDA_SUCCESS);
  EXPECT_NE(old_form, new_form);
  EXPECT_EQ(new_form, reinterpret_cast<void*>(&cuStreamWaitValue32));
  ASSERT_EQ(cuGetProcAddress("cuStreamWaitValue32", &per_thread, 13000,
                             CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &result),
            CUDA_SUCCESS);
  EXPECT_NE(per_thread, new_form);
  void* none = nullptr;
  ASSERT_EQ(cuGetProcAddress("cuMemPoolCreate", &none, 10000, 0, &result), CUDA_SUCCESS);
  EXPECT_EQ(result, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  ASSERT_EQ(cuGetProcAddress("cuNothing", &none, 13000, 0, &result), CUDA_SUCCESS);
  EXPECT_EQ(result, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(none, nullptr);
}

TEST_F(Driver, WhatIsNotEmulatedSaysSoOnce) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuLinkDestroy(nullptr), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuLinkDestroy(nullptr), CUDA_ERROR_NOT_SUPPORTED);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("gordian emulator: cuLinkDestroy is not emulated"), 0U);
  EXPECT_EQ(said.find('\n'), said.size() - 1);
}

TEST_F(Driver, ModuleHasTheKernelsOfItsText) {
  constexpr char kPtx[] =
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".visible .entry add(.param .u64 p)\n{\n ret;\n}\n";
  CUmodule module = nullptr;
  ASSERT_EQ(cuModuleLoadData(&module, kPtx), CUDA_SUCCESS);
  CUfunction add = nullptr;
  CUfunction other = nullptr;
  ASSERT_EQ(cuModuleGetFunction(&add, module, "add"), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleGetFunction(&other, module, "sub"), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuLaunchKernel(add, 1, 1, 1, 2048, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
  EXPECT_EQ(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuModuleLoadData(&module, "no code at all, only text"), CUDA_ERROR_INVALID_IMAGE);
}

TEST_F(Driver, VirtualMemoryIsWhatItsHandlesShare) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  size_t granularity = 0;
  ASSERT_EQ(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
            CUDA_SUCCESS);
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(cuMemCreate(&handle, granularity - 1, &prop, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemCreate(&handle, granularity, &prop, 0), CUDA_SUCCESS);
  int fd = -1;
  ASSERT_EQ(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_SUCCESS);
  CUmemGenericAllocationHandle imported = 0;
  ASSERT_EQ(
      cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
      CUDA_SUCCESS);
  close(fd);
  CUdeviceptr range = 0;
  ASSERT_EQ(cuMemAddressReserve(&range, 2 * granularity, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(range, granularity, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemMap(range, granularity, 0, imported, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemMap(range + granularity, granularity, 0, imported, 0), CUDA_SUCCESS);
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(cuMemSetAccess(range, 2 * granularity, &access, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32(range, 77, 1), CUDA_SUCCESS);
  unsigned value = 0;
  ASSERT_EQ(cuMemcpyDtoH(&value, range + granularity, sizeof(value)), CUDA_SUCCESS);
  EXPECT_EQ(value, 77U);
  EXPECT_EQ(cuMemAddressFree(range, 2 * granularity), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(range, 2 * granularity), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD32(range, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemRelease(imported), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(range, 2 * granularity), CUDA_SUCCESS);
}

TEST_F(Driver, CopiesBoxes) {
  constexpr size_t kWidth = 5;
  unsigned char from[2][3][8];
  unsigned char to[2][3][8] = {};
  auto* const bytes = reinterpret_cast<unsigned char*>(from);
  for (size_t i = 0; i < sizeof(from); ++i) bytes[i] = static_cast<unsigned char>(i);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = from;
  copy.dstHost = to;
  copy.srcPitch = copy.dstPitch = 8;
  copy.srcHeight = copy.dstHeight = 3;
  copy.srcY = 1;
  copy.dstXInBytes = 1;
  copy.WidthInBytes = kWidth;
  copy.Height = 2;
  copy.Depth = 2;
  ASSERT_EQ(cuMemcpy3D(&copy), CUDA_SUCCESS);
  EXPECT_EQ(to[1][1][1], from[1][2][0]);
  EXPECT_EQ(to[1][1][kWidth], from[1][2][kWidth - 1]);
  EXPECT_EQ(to[1][1][kWidth + 1], 0);
  EXPECT_EQ(to[1][2][1], 0);
}

}  // namespace
}  // namespace gordian::emu
