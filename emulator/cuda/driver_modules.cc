// Modules, libraries, kernels. The emulator loads only the names of device code: a kernel has no
// body, takes a configurable time and writes nothing. A variable gets memory on the device that is
// current at its first use (a managed one once for all devices), with its initial value if the
// image holds it uncompressed.
#include "emulator/cuda/driver_modules.h"

#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "emulator/cuda/driver_common.h"
#include "emulator/engine/device/device_image.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace gordian::emu {

struct LoadedModule;

// A CUfunction, a CUkernel.
struct LoadedKernel {
  std::string name;
  LoadedModule* module = nullptr;
  std::vector<ImageParameter> parameters;
  KernelSettings settings;
};

// A CUmodule, a CUlibrary.
struct LoadedModule {
  DeviceImage image;
  std::map<std::string, std::unique_ptr<LoadedKernel>> kernels;
  std::map<std::pair<std::string, int>, void*> variables;  // by device
};

namespace {

struct Loaded {
  std::mutex mutex;
  std::set<LoadedModule*> modules;
  std::unordered_set<const void*> kernels;
};

Loaded& TheLoaded() {
  static Loaded* const loaded = new Loaded;
  return *loaded;
}

LoadedModule* FindModule(Loaded* loaded, const void* handle) {
  auto* module = static_cast<LoadedModule*>(const_cast<void*>(handle));
  return loaded->modules.count(module) != 0 ? module : nullptr;
}

LoadedKernel* FindKernel(Loaded* loaded, const void* handle) {
  if (loaded->kernels.count(handle) == 0) return nullptr;
  return static_cast<LoadedKernel*>(const_cast<void*>(handle));
}

CUresult Load(const void* data, size_t bytes, void** handle) {
  if (data == nullptr || handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto module = std::make_unique<LoadedModule>();
  if (!ParseDeviceImage(data, bytes, &module->image)) return CUDA_ERROR_INVALID_IMAGE;
  Loaded& loaded = TheLoaded();
  std::lock_guard<std::mutex> lock(loaded.mutex);
  loaded.modules.insert(module.get());
  *handle = module.release();
  return CUDA_SUCCESS;
}

CUresult LoadFile(const char* path, void** handle) {
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  FILE* const file = fopen(path, "re");
  if (file == nullptr) return CUDA_ERROR_FILE_NOT_FOUND;
  std::string text;
  char buffer[65536];
  for (size_t n; (n = fread(buffer, 1, sizeof(buffer), file)) > 0;) text.append(buffer, n);
  fclose(file);
  if (text.empty()) return CUDA_ERROR_INVALID_IMAGE;
  return Load(text.data(), text.size(), handle);
}

CUresult Unload(const void* handle) {
  Loaded& loaded = TheLoaded();
  std::lock_guard<std::mutex> lock(loaded.mutex);
  LoadedModule* const module = FindModule(&loaded, handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (const auto& [name, kernel] : module->kernels) loaded.kernels.erase(kernel.get());
  for (const auto& [name, memory] : module->variables) TheEngine().Free(memory);
  loaded.modules.erase(module);
  delete module;
  return CUDA_SUCCESS;
}

LoadedKernel* KernelOf(Loaded* loaded, LoadedModule* module, const std::string& name) {
  const auto known = module->image.kernels.find(name);
  if (known == module->image.kernels.end() && !module->image.opaque) return nullptr;
  std::unique_ptr<LoadedKernel>& kernel = module->kernels[name];
  if (kernel == nullptr) {
    kernel = std::make_unique<LoadedKernel>();
    kernel->name = name;
    kernel->module = module;
    if (known != module->image.kernels.end()) kernel->parameters = known->second.parameters;
    loaded->kernels.insert(kernel.get());
  }
  return kernel.get();
}

template <typename Handle>
CUresult GetKernel(Handle* out, const void* handle, const char* name) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Loaded& loaded = TheLoaded();
  std::lock_guard<std::mutex> lock(loaded.mutex);
  LoadedModule* const module = FindModule(&loaded, handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  LoadedKernel* const kernel = KernelOf(&loaded, module, name);
  if (kernel == nullptr) return CUDA_ERROR_NOT_FOUND;
  *out = reinterpret_cast<Handle>(kernel);
  return CUDA_SUCCESS;
}

// The memory of a variable; `managed` restricts the search to managed ones.
CUresult Variable(void** address, size_t* bytes, const void* handle, const char* name,
                  bool managed) {
  if (name == nullptr || (address == nullptr && bytes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  Loaded& loaded = TheLoaded();
  std::lock_guard<std::mutex> lock(loaded.mutex);
  LoadedModule* const module = FindModule(&loaded, handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const auto known = module->image.variables.find(name);
  if (known == module->image.variables.end()) return CUDA_ERROR_NOT_FOUND;
  const ImageVariable& variable = known->second;
  if (managed && !variable.managed) return CUDA_ERROR_NOT_FOUND;
  constexpr int kAllDevices = -1;
  const int device = variable.managed ? kAllDevices : TheEngine().CurrentDevice();
  void*& memory = module->variables[{name, device}];
  Allocation found;
  // A device reset frees it.
  if (memory == nullptr || !TheEngine().FindMemory(memory, &found)) {
    const MemoryKind kind = variable.managed ? MemoryKind::kManaged : MemoryKind::kDevice;
    GORDIAN_EMU_CHECK(
        Result(TheEngine().AllocateMemory(variable.bytes, kind, CU_MEM_ATTACH_GLOBAL, &memory)));
    memset(memory, 0, variable.bytes);
    memcpy(memory, variable.initial.data(), variable.initial.size());
  }
  if (address != nullptr) *address = memory;
  if (bytes != nullptr) *bytes = variable.bytes;
  return CUDA_SUCCESS;
}

CUresult GetGlobal(CUdeviceptr* address, size_t* bytes, const void* handle, const char* name,
                   bool managed) {
  GORDIAN_EMU_CHECK(CheckContext());
  void* memory = nullptr;
  GORDIAN_EMU_CHECK(Variable(address != nullptr ? &memory : nullptr, bytes, handle, name, managed));
  if (address != nullptr) *address = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult Enumerate(Handle* out, unsigned count, const void* handle) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (out == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  Loaded& loaded = TheLoaded();
  std::lock_guard<std::mutex> lock(loaded.mutex);
  LoadedModule* const module = FindModule(&loaded, handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  unsigned i = 0;
  for (const auto& [name, kernel] : module->image.kernels) {
    if (i == count) break;
    out[i++] = reinterpret_cast<Handle>(KernelOf(&loaded, module, name));
  }
  return CUDA_SUCCESS;
}

CUresult Count(unsigned* count, const void* handle) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  Loaded& loaded = TheLoaded();
  std::lock_guard<std::mutex> lock(loaded.mutex);
  const LoadedModule* const module = FindModule(&loaded, handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned>(module->image.kernels.size());
  return CUDA_SUCCESS;
}

CUresult Name(const char** name, const void* handle) {
  Loaded& loaded = TheLoaded();
  std::lock_guard<std::mutex> lock(loaded.mutex);
  const LoadedKernel* const kernel = FindKernel(&loaded, handle);
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *name = kernel->name.c_str();
  return CUDA_SUCCESS;
}

CUresult Parameter(const void* handle, size_t index, size_t* offset, size_t* bytes) {
  Loaded& loaded = TheLoaded();
  std::lock_guard<std::mutex> lock(loaded.mutex);
  const LoadedKernel* const kernel = FindKernel(&loaded, handle);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (offset == nullptr || index >= kernel->parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = kernel->parameters[index].offset;
  if (bytes != nullptr) *bytes = kernel->parameters[index].bytes;
  return CUDA_SUCCESS;
}

CUresult GetAttribute(int* value, CUfunction_attribute attribute, const void* handle) {
  Loaded& loaded = TheLoaded();
  std::lock_guard<std::mutex> lock(loaded.mutex);
  const LoadedKernel* const kernel = FindKernel(&loaded, handle);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Result(kernel->settings.Get(attribute, value));
}

CUresult SetAttribute(CUfunction_attribute attribute, int value, const void* handle) {
  Loaded& loaded = TheLoaded();
  std::lock_guard<std::mutex> lock(loaded.mutex);
  LoadedKernel* const kernel = FindKernel(&loaded, handle);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return Result(kernel->settings.Set(attribute, value));
}

CUresult CheckKernel(const void* handle) {
  return IsLoadedKernel(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace

bool FindKernelSettings(const void* handle, KernelSettings* settings) {
  Loaded& loaded = TheLoaded();
  std::lock_guard<std::mutex> lock(loaded.mutex);
  const LoadedKernel* const kernel = FindKernel(&loaded, handle);
  if (kernel != nullptr) *settings = kernel->settings;
  return kernel != nullptr;
}

bool IsLoadedKernel(const void* handle) {
  Loaded& loaded = TheLoaded();
  std::lock_guard<std::mutex> lock(loaded.mutex);
  return loaded.kernels.count(handle) != 0;
}

}  // namespace gordian::emu

extern "C" {

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  GORDIAN_EMU_CHECK(CheckContext());
  return Load(image, 0, reinterpret_cast<void**>(module));
}
CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  return cuModuleLoadData(module, image);
}
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return cuModuleLoadData(module, image);
}
CUresult cuModuleLoad(CUmodule* module, const char* path) {
  GORDIAN_EMU_CHECK(CheckContext());
  return LoadFile(path, reinterpret_cast<void**>(module));
}
CUresult cuModuleUnload(CUmodule module) {
  GORDIAN_EMU_CHECK(CheckContext());
  return Unload(module);
}
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  return GetKernel(function, module, name);
}
CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule module) { return Count(count, module); }
CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned count, CUmodule module) {
  return Enumerate(functions, count, module);
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule module,
                              const char* name) {
  return GetGlobal(address, bytes, module, name, false);
}

// Options are for the compiler, and for the host's share of the code; none changes a name.
CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jit, void**,
                           unsigned jit_count, CUlibraryOption* options, void**, unsigned count) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if ((jit == nullptr && jit_count > 0) || (options == nullptr && count > 0)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return Load(code, 0, reinterpret_cast<void**>(library));
}
CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option* jit, void**,
                               unsigned jit_count, CUlibraryOption* options, void**,
                               unsigned count) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if ((jit == nullptr && jit_count > 0) || (options == nullptr && count > 0)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == CU_LIBRARY_BINARY_IS_PRESERVED) return CUDA_ERROR_INVALID_VALUE;
  }
  return LoadFile(path, reinterpret_cast<void**>(library));
}
CUresult cuLibraryUnload(CUlibrary library) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Unload(library);
}
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return GetKernel(kernel, library, name);
}
CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary library) {
  return Count(count, library);
}
CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned count, CUlibrary library) {
  return Enumerate(kernels, count, library);
}
CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary library,
                            const char* name) {
  return GetGlobal(address, bytes, library, name, false);
}
CUresult cuLibraryGetManaged(CUdeviceptr* address, size_t* bytes, CUlibrary library,
                             const char* name) {
  return GetGlobal(address, bytes, library, name, true);
}
// A library and its module are the same object.
CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  GORDIAN_EMU_CHECK(CheckContext());
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Loaded& loaded = TheLoaded();
  std::lock_guard<std::mutex> lock(loaded.mutex);
  if (FindModule(&loaded, library) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *module = reinterpret_cast<CUmodule>(library);
  return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  GORDIAN_EMU_CHECK(CheckContext());
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  GORDIAN_EMU_CHECK(CheckKernel(kernel));
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}
CUresult cuKernelGetLibrary(CUlibrary* library, CUkernel kernel) {
  Loaded& loaded = TheLoaded();
  std::lock_guard<std::mutex> lock(loaded.mutex);
  const LoadedKernel* const found = FindKernel(&loaded, kernel);
  if (library == nullptr || found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *library = reinterpret_cast<CUlibrary>(found->module);
  return CUDA_SUCCESS;
}
CUresult cuFuncGetModule(CUmodule* module, CUfunction function) {
  return cuKernelGetLibrary(reinterpret_cast<CUlibrary*>(module),
                            reinterpret_cast<CUkernel>(function));
}
CUresult cuKernelGetName(const char** name, CUkernel kernel) { return Name(name, kernel); }
CUresult cuFuncGetName(const char** name, CUfunction function) { return Name(name, function); }
CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset, size_t* bytes) {
  return Parameter(kernel, index, offset, bytes);
}
CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* bytes) {
  return Parameter(function, index, offset, bytes);
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  return GetAttribute(value, attribute, function);
}
CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel,
                              CUdevice device) {
  GORDIAN_EMU_CHECK(CheckDevice(device));
  return GetAttribute(value, attribute, kernel);
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return SetAttribute(attribute, value, function);
}
CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                              CUdevice device) {
  GORDIAN_EMU_CHECK(CheckDevice(device));
  return SetAttribute(attribute, value, kernel);
}
// Cache and bank settings have no effect, since no kernel has a body.
CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache) { return CheckKernel(function); }
CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache, CUdevice) {
  return CheckKernel(kernel);
}
CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig) {
  return CheckKernel(function);
}
CUresult cuFuncLoad(CUfunction function) { return CheckKernel(function); }
CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
  if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
  GORDIAN_EMU_CHECK(CheckKernel(function));
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

}  // extern "C"
