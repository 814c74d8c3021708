#include "emulator/engine/options.h"

#include <cstdlib>
#include <string>

namespace gordian::emu {
namespace {

// The value of an environment variable as a number, `fallback` when it is unset or not a number in
// [low, high].
int64_t ReadNumber(const char* name, int64_t fallback, int64_t low, int64_t high) {
  const char* text = getenv(name);
  if (text == nullptr || *text == '\0') return fallback;
  char* end = nullptr;
  const long long value = strtoll(text, &end, 10);
  if (*end != '\0' || value < low || value > high) return fallback;
  return value;
}

// As the driver does: the list ends at its first entry that names no device, and an entry named
// twice leaves no device at all.
std::vector<int> VisibleDevices(int count) {
  std::vector<int> devices;
  const char* text = getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) {
    for (int i = 0; i < count; ++i) devices.push_back(i);
    return devices;
  }
  while (*text != '\0') {
    char* end = nullptr;
    const long ordinal = strtol(text, &end, 10);
    if (end == text || ordinal < 0 || ordinal >= count) break;
    for (int seen : devices) {
      if (seen == ordinal) return {};
    }
    devices.push_back(static_cast<int>(ordinal));
    while (*end == ' ') ++end;
    if (*end != ',') break;
    text = end + 1;
  }
  return devices;
}

}  // namespace

Options ReadOptions() {
  Options options;
  options.devices = VisibleDevices(static_cast<int>(ReadNumber("GORDIAN_EMU_DEVICES", 8, 0, 64)));
  options.sms = static_cast<int>(ReadNumber("GORDIAN_EMU_SMS", options.sms, 1, 4096));
  const int64_t connections = ReadNumber("CUDA_DEVICE_MAX_CONNECTIONS", options.connections, 1, 32);
  options.connections = static_cast<int>(ReadNumber("GORDIAN_EMU_CONNECTIONS", connections, 1, 32));
  options.kernel_ns =
      1'000 * ReadNumber("GORDIAN_EMU_KERNEL_US", options.kernel_ns / 1'000, 0, 3'600'000'000);
  options.seed = static_cast<uint64_t>(ReadNumber("GORDIAN_EMU_SEED", 0, 0, INT64_MAX));
  const int64_t megabytes = ReadNumber("GORDIAN_EMU_MEMORY_MB", 0, 1, int64_t{1} << 24);
  if (megabytes > 0) options.memory_bytes = static_cast<size_t>(megabytes) << 20;
  return options;
}

}  // namespace gordian::emu
