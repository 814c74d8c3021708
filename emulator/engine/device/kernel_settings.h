// Keeps a kernel's settable attributes, and computes how much of it fits on a device. The emulator
// runs no kernel's code: the numbers are those of a small kernel on an H200. CUfunction_attribute
// and cudaFuncAttribute share the attribute numbers.
//
// Sizes in bytes. Threads: plain data; callers lock. Errors: Status numbers.
#ifndef GORDIAN_EMULATOR_ENGINE_DEVICE_KERNEL_SETTINGS_H_
#define GORDIAN_EMULATOR_ENGINE_DEVICE_KERNEL_SETTINGS_H_

#include <array>
#include <cstddef>

namespace gordian::emu {

inline constexpr int kMaxThreadsPerBlock = 1024;
inline constexpr int kMaxSharedBytesPerBlock = 232448;
inline constexpr int kPortableClusterSize = 8;
inline constexpr int kMaxClusterSize = 16;

inline constexpr int kKernelAttributes = 16;
inline constexpr int kMaxDynamicSharedBytes = 8;
inline constexpr int kRequiredClusterWidth = 11;  // height and depth follow
inline constexpr int kNonPortableClusters = 14;

class KernelSettings {
 public:
  // A Status.
  int Get(int attribute, int* value) const;
  int Set(int attribute, int value);
  // Blocks of a cluster that the kernel requires; 0: it requires none.
  int RequiredClusterSize() const;
  int LargestClusterSize() const;

 private:
  std::array<int, kKernelAttributes> values_ = {
      kMaxThreadsPerBlock, 0, 0, 0, 32, 90, 90, 0, 49152, -1, 0, 0, 0, 0, 0, 0};
};

// Blocks that fit on one multiprocessor.
int BlocksPerSm(int threads, size_t shared_bytes);
// Shared memory that a block may use so that `blocks` fit on one multiprocessor. A Status.
int AvailableSharedBytes(int blocks, int threads, size_t* bytes);
// Clusters of `size` blocks that fit on a device. All blocks of a cluster run in one group of
// multiprocessors; an H200 has eight groups, of 16 or 18.
int ActiveClusters(int sms, int size, int threads, size_t shared_bytes);
// The largest block size that occupies a multiprocessor best. 0: none fits.
template <typename SharedBytesOf>
int BestBlockSize(int limit, SharedBytesOf shared_bytes_of) {
  if (limit <= 0 || limit > kMaxThreadsPerBlock) limit = kMaxThreadsPerBlock;
  int best = 0;
  int most = 0;
  // Tries whole warps, and the limit itself.
  for (int size = limit; size > 0; size = (size - 1) / 32 * 32) {
    const int threads = size * BlocksPerSm(size, shared_bytes_of(size));
    if (threads <= most) continue;
    most = threads;
    best = size;
  }
  return best;
}

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_DEVICE_KERNEL_SETTINGS_H_
