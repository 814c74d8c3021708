// Gives an emulated device's properties: an H200's numbers. CUdevice_attribute and cudaDeviceAttr
// share the attribute numbers. Threads: any.
#ifndef GORDIAN_EMULATOR_ENGINE_DEVICE_DEVICE_INFO_H_
#define GORDIAN_EMULATOR_ENGINE_DEVICE_DEVICE_INFO_H_

#include <cstddef>
#include <cstdint>

namespace gordian::emu {

inline constexpr char kDeviceName[] = "NVIDIA H200 (gordian emulator)";
inline constexpr int kDriverVersion = 13000;
inline constexpr int kPciFirstBus = 0x19;

struct DeviceShape {
  int sms;
  int physical;  // ordinal before CUDA_VISIBLE_DEVICES
};

// Returns false if there is no such attribute.
bool DeviceAttribute(const DeviceShape& shape, int attribute, int* value);
// The 16 bytes that identify a device, the same in every process.
void DeviceUuid(int physical, char uuid[16]);
// "0000:19:00.0"; needs 13 bytes.
void PciBusId(int physical, char* text, size_t bytes);

struct StatusText {
  int code;
  const char* runtime_name;  // null: not a cudaError_t
  const char* driver_name;   // null: not a CUresult
  const char* text;
};
// Null for numbers that are no error.
const StatusText* FindStatusText(int code);

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_DEVICE_DEVICE_INFO_H_
