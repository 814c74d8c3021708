// What a device binary (cubin, fatbin, PTX text) says of itself: kernels and variables. Nothing of
// it is run. Compressed PTX inside of a fatbin is not looked into.
#ifndef GORDIAN_EMULATOR_ENGINE_DEVICE_IMAGE_H_
#define GORDIAN_EMULATOR_ENGINE_DEVICE_IMAGE_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace gordian::emu {

struct ImageParameter {
  size_t offset = 0;
  size_t bytes = 0;
};

struct ImageKernel {
  std::vector<ImageParameter> parameters;  // empty too when the image does not tell (PTX)
};

struct ImageVariable {
  size_t bytes = 0;
  bool managed = false;
  std::string initial;  // empty: zero
};

struct DeviceImage {
  // Something in it could not be read, so a name that is not here may exist all the same.
  bool opaque = false;
  std::map<std::string, ImageKernel> kernels;
  std::map<std::string, ImageVariable> variables;
};

// `data` points to a fatbin wrapper, a fatbin, a cubin or PTX text; `bytes` 0: as long as it says
// itself. False when it is none of these.
bool ParseDeviceImage(const void* data, size_t bytes, DeviceImage* image);

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_DEVICE_IMAGE_H_
