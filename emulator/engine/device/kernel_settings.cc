#include "emulator/engine/device/kernel_settings.h"

#include <algorithm>

#include "emulator/engine/status.h"

namespace gordian::emu {
namespace {

constexpr int kThreadsPerSm = 2048;
constexpr int kMaxBlocksPerSm = 32;
constexpr size_t kSharedBytesPerSm = 233472;
constexpr size_t kReservedSharedBytes = 1024;  // of each block

}  // namespace

int KernelSettings::Get(int attribute, int* value) const {
  if (attribute < 0 || attribute >= kKernelAttributes) return kInvalidValue;
  *value = values_[attribute];
  return kSuccess;
}

int KernelSettings::Set(int attribute, int value) {
  constexpr int kSharedCarveout = 9;
  // Below are facts of the code, which a program only reads.
  if (attribute < kMaxDynamicSharedBytes || attribute >= kKernelAttributes) return kInvalidValue;
  const bool valid = attribute == kSharedCarveout ? value >= -1 && value <= 100 : value >= 0;
  if (!valid || (attribute == kMaxDynamicSharedBytes && value > kMaxSharedBytesPerBlock)) {
    return kInvalidValue;
  }
  values_[attribute] = value;
  return kSuccess;
}

int KernelSettings::RequiredClusterSize() const {
  const int* const cluster = &values_[kRequiredClusterWidth];
  if (cluster[0] == 0 && cluster[1] == 0 && cluster[2] == 0) return 0;
  return std::max(cluster[0], 1) * std::max(cluster[1], 1) * std::max(cluster[2], 1);
}

int KernelSettings::LargestClusterSize() const {
  return values_[kNonPortableClusters] != 0 ? kMaxClusterSize : kPortableClusterSize;
}

int BlocksPerSm(int threads, size_t shared_bytes) {
  if (threads <= 0 || threads > kMaxThreadsPerBlock || shared_bytes > kMaxSharedBytesPerBlock) {
    return 0;
  }
  const int by_threads = kThreadsPerSm / ((threads + 31) / 32 * 32);
  const int by_memory = static_cast<int>(kSharedBytesPerSm / (shared_bytes + kReservedSharedBytes));
  return std::min({by_threads, kMaxBlocksPerSm, by_memory});
}

int AvailableSharedBytes(int blocks, int threads, size_t* bytes) {
  constexpr size_t kGranularity = 128;
  if (blocks <= 0 || blocks > BlocksPerSm(threads, 0)) return kInvalidValue;
  const size_t share =
      kSharedBytesPerSm / static_cast<size_t>(blocks) / kGranularity * kGranularity;
  *bytes = share - kReservedSharedBytes;
  return kSuccess;
}

int ActiveClusters(int sms, int size, int threads, size_t shared_bytes) {
  constexpr int kSmsPerGroup = 18;
  constexpr int kSmsPerPair = 2;
  const int blocks = BlocksPerSm(threads, shared_bytes);
  const int groups = (sms + kSmsPerGroup - 1) / kSmsPerGroup;
  const int pairs = sms / kSmsPerPair;
  int clusters = 0;
  for (int group = 0; group < groups; ++group) {
    // Multiprocessors come in pairs, spread evenly; an odd one is in the last group.
    int of_group = (pairs / groups + (group < pairs % groups ? 1 : 0)) * kSmsPerPair;
    if (group == groups - 1) of_group += sms % kSmsPerPair;
    clusters += of_group * blocks / size;
  }
  return clusters;
}

}  // namespace gordian::emu
