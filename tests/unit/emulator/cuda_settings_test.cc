// What the environment sets: launches that block, devices named by UUID.
#include <cstdlib>
#include <cstring>

#include "tests/unit/emulator/cuda_test_support.h"

namespace gordian::emu {
namespace {

// Abbreviated, as long as one device has it; the third entry names none and ends the list.
[[maybe_unused]] const bool kSettings = [] {
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  setenv("CUDA_VISIBLE_DEVICES", "GPU-646f7264,0,GPU-ffff,1", 1);
  return true;
}();

TEST(Settings, DevicesByUuid) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 2);
  cudaDeviceProp first;
  cudaDeviceProp second;
  ASSERT_EQ(cudaGetDeviceProperties(&first, 0), cudaSuccess);
  ASSERT_EQ(cudaGetDeviceProperties(&second, 1), cudaSuccess);
  EXPECT_EQ(memcmp(first.uuid.bytes, "dord", 4), 0);
  EXPECT_EQ(first.pciBusID, second.pciBusID + 3);
}

TEST(Settings, LaunchReturnsWhenItsKernelIsDone) {
  const TestKernel kernel("_Z4workv");
  const cudaStream_t stream = NewStream();
  const cudaStream_t other = NewStream();
  // Only launches wait: an event wait and a copy behind it do not.
  HeldOpPtr held;
  Call hold([&] {
    held = Hold(stream);
    return cudaSuccess;
  });
  EXPECT_TRUE(hold.Blocks());
  ASSERT_EQ(cudaLaunchKernel(kernel.function(), dim3(1), dim3(1), nullptr, 0, other), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(other), cudaSuccess);
  Call launch(
      [&] { return cudaLaunchKernel(kernel.function(), dim3(1), dim3(1), nullptr, 0, stream); });
  EXPECT_TRUE(launch.Blocks());
  EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
  EXPECT_EQ(launch.Result(), cudaSuccess);
  EXPECT_EQ(hold.Result(), cudaSuccess);
}

}  // namespace
}  // namespace gordian::emu
