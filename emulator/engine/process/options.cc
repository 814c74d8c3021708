#include "emulator/engine/process/options.h"

#include <strings.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "emulator/engine/device/device_info.h"

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

std::string UuidText(int physical) {
  char uuid[16];
  DeviceUuid(physical, uuid);
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[static_cast<unsigned char>(uuid[i]) >> 4];
    text += kDigits[uuid[i] & 15];
  }
  return text;
}

// The device of an entry of CUDA_VISIBLE_DEVICES: by number, or by a unique beginning of its UUID.
// -1: none.
int NamedDevice(const std::string& entry, int count) {
  if (entry.compare(0, 4, "GPU-") == 0) {
    int found = -1;
    for (int i = 0; i < count; ++i) {
      const std::string uuid = UuidText(i);
      if (entry.size() > uuid.size() ||
          strncasecmp(entry.c_str(), uuid.c_str(), entry.size()) != 0) {
        continue;
      }
      if (found >= 0) return -1;
      found = i;
    }
    return found;
  }
  char* end = nullptr;
  const long ordinal = strtol(entry.c_str(), &end, 10);
  return end != entry.c_str() && ordinal >= 0 && ordinal < count ? static_cast<int>(ordinal) : -1;
}

// Follows the driver: the list ends at its first entry that names no device, and an entry named
// twice leaves no device at all.
std::vector<int> VisibleDevices(int count) {
  std::vector<int> devices;
  const char* text = getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) {
    for (int i = 0; i < count; ++i) devices.push_back(i);
    return devices;
  }
  std::string list = text;
  while (!list.empty()) {
    const size_t comma = list.find(',');
    std::string entry = list.substr(0, comma);
    const size_t begin = std::min(entry.find_first_not_of(' '), entry.size());
    const int device = NamedDevice(entry.substr(begin), count);
    if (device < 0) break;
    if (std::find(devices.begin(), devices.end(), device) != devices.end()) return {};
    devices.push_back(device);
    if (comma == std::string::npos) break;
    list.erase(0, comma + 1);
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
  const char* blocking = getenv("CUDA_LAUNCH_BLOCKING");
  options.launch_blocking = blocking != nullptr && atoi(blocking) != 0;
  const char* loading = getenv("CUDA_MODULE_LOADING");
  options.lazy_loading = loading != nullptr && strcmp(loading, "LAZY") == 0;
  options.kernel_ns =
      1'000 * ReadNumber("GORDIAN_EMU_KERNEL_US", options.kernel_ns / 1'000, 0, 3'600'000'000);
  options.seed = static_cast<uint64_t>(ReadNumber("GORDIAN_EMU_SEED", 0, 0, INT64_MAX));
  const int64_t megabytes = ReadNumber("GORDIAN_EMU_MEMORY_MB", 0, 1, int64_t{1} << 24);
  if (megabytes > 0) options.memory_bytes = static_cast<size_t>(megabytes) << 20;
  return options;
}

}  // namespace gordian::emu
