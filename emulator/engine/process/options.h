// The emulator's settings, which the engine reads once from the environment when it starts.
#ifndef GORDIAN_EMULATOR_ENGINE_PROCESS_OPTIONS_H_
#define GORDIAN_EMULATOR_ENGINE_PROCESS_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gordian::emu {

struct Options {
  // GORDIAN_EMU_DEVICES (8), limited by CUDA_VISIBLE_DEVICES: physical ordinals in logical order.
  std::vector<int> devices;
  int sms = 132;                 // GORDIAN_EMU_SMS, per device
  int connections = 8;           // GORDIAN_EMU_CONNECTIONS, else CUDA_DEVICE_MAX_CONNECTIONS; 1..32
  bool launch_blocking = false;  // CUDA_LAUNCH_BLOCKING: a launch returns when its kernel is done
  int64_t kernel_ns = 2'000;     // GORDIAN_EMU_KERNEL_US: how long a kernel without a body takes
  uint64_t seed = 0;             // GORDIAN_EMU_SEED; 0: free choices go to the first possible one
  bool lazy_loading = false;     // CUDA_MODULE_LOADING=LAZY; the emulator's default is eager
  size_t memory_bytes = 150'109'880'320;  // GORDIAN_EMU_MEMORY_MB, per device; not reserved
};

Options ReadOptions();

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_PROCESS_OPTIONS_H_
