#include "runtime/cuda/driver/driver.h"

#include <dlfcn.h>

namespace gordian::runtime::cuda {
namespace {

struct Loaded {
  Driver driver;
  std::string why;
};

template <typename F>
void Find(void* library, const char* name, F* to, std::string* why) {
  *to = reinterpret_cast<F>(dlsym(library, name));
  if (*to == nullptr && why->empty()) why->append("the CUDA driver has no ").append(name);
}

Loaded Load() {
  Loaded loaded;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = dlerror();
    loaded.why = error != nullptr ? error : "libcuda.so.1 cannot be loaded";
    return loaded;
  }
  Driver& d = loaded.driver;
  Find(library, "cuMemGetAllocationGranularity", &d.granularity, &loaded.why);
  Find(library, "cuMemCreate", &d.create, &loaded.why);
  Find(library, "cuMemRelease", &d.release, &loaded.why);
  Find(library, "cuMemExportToShareableHandle", &d.export_handle, &loaded.why);
  Find(library, "cuMemImportFromShareableHandle", &d.import_handle, &loaded.why);
  Find(library, "cuMemAddressReserve", &d.reserve, &loaded.why);
  Find(library, "cuMemAddressFree", &d.free_address, &loaded.why);
  Find(library, "cuMemMap", &d.map, &loaded.why);
  Find(library, "cuMemUnmap", &d.unmap, &loaded.why);
  Find(library, "cuMemSetAccess", &d.set_access, &loaded.why);
  // The name by itself is an older function, which a device may have switched off.
  Find(library, "cuStreamWaitValue32_v2", &d.stream_wait_value, &loaded.why);
  Find(library, "cuMemRetainAllocationHandle", &d.retain, &loaded.why);
  Find(library, "cuMemGetAllocationPropertiesFromHandle", &d.properties, &loaded.why);
  Find(library, "cuPointerGetAttribute", &d.pointer_attribute, &loaded.why);
  Find(library, "cuDevicePrimaryCtxRetain", &d.retain_context, &loaded.why);
  Find(library, "cuCtxPushCurrent_v2", &d.push_context, &loaded.why);
  Find(library, "cuCtxPopCurrent_v2", &d.pop_context, &loaded.why);
  Find(library, "cuThreadExchangeStreamCaptureMode", &d.exchange_capture_mode, &loaded.why);
  return loaded;
}

}  // namespace

const Driver* LoadDriver(std::string* why) {
  static const Loaded& loaded = *new Loaded(Load());
  if (!loaded.why.empty()) {
    *why = loaded.why;
    return nullptr;
  }
  return &loaded.driver;
}

}  // namespace gordian::runtime::cuda
