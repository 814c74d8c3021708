// Receives the calls of nvcc's start-up code, and keeps what they register.
#include "emulator/cudart/registry.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "emulator/cudart/runtime_driver.h"

namespace gordian::emu {
namespace {

struct Module {
  DeviceImage image;
  std::unordered_set<const void*> functions;  // host functions, to remove with the module
  std::unordered_set<const void*> variables;
};

struct Variable {
  size_t bytes = 0;
  std::string initial;          // empty: zero, or unreadable in the image
  std::map<int, void*> memory;  // by device
};

struct Registry {
  std::mutex mutex;
  std::unordered_map<const void*, Kernel*> kernels;  // by host function
  std::unordered_set<const void*> handles;
  std::unordered_map<const Kernel*, KernelSettings> settings;  // of kernels whose settings changed
  std::unordered_map<const void*, Kernel*> loaded;             // by the driver's handle
  std::unordered_map<const void*, Variable> variables;         // by host shadow
};

// Static initialisers use it, and code after static destructors does: so it is never destroyed.
Registry& TheRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

bool IsBusy(const std::string& name) { return name.find("gordian_busy_us") != std::string::npos; }

// A library's kernel by the driver's handle; the driver may reuse handles.
const Kernel* FindLoaded(Registry* registry, const void* handle) {
  const auto function = static_cast<CUfunction>(const_cast<void*>(handle));
  const char* name = nullptr;
  if (GORDIAN_EMU_DRIVER(cuFuncGetName)(&name, function) != CUDA_SUCCESS) return nullptr;
  Kernel*& kernel = registry->loaded[handle];
  auto found = std::make_unique<Kernel>();
  found->name = name;
  found->busy = IsBusy(found->name);
  found->driver_kernel = handle;
  ImageParameter parameter;
  while (GORDIAN_EMU_DRIVER(cuFuncGetParamInfo)(function, found->parameters.size(),
                                                &parameter.offset,
                                                &parameter.bytes) == CUDA_SUCCESS) {
    found->parameters.push_back(parameter);
  }
  const auto same = [](const ImageParameter& a, const ImageParameter& b) {
    return a.offset == b.offset && a.bytes == b.bytes;
  };
  if (kernel == nullptr || kernel->name != found->name ||
      !std::equal(kernel->parameters.begin(), kernel->parameters.end(), found->parameters.begin(),
                  found->parameters.end(), same)) {
    kernel = found.release();
  }
  return kernel;
}

}  // namespace

const Kernel* FindKernel(const void* function) {
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  if (registry.handles.count(function) != 0) return static_cast<const Kernel*>(function);
  const auto at = registry.kernels.find(function);
  return at == registry.kernels.end() ? FindLoaded(&registry, function) : at->second;
}

bool GetKernelSettings(const void* function, KernelSettings* settings) {
  const Kernel* const kernel = FindKernel(function);
  if (kernel == nullptr) return false;
  if (kernel->driver_kernel != nullptr) {
    const auto handle = static_cast<CUfunction>(const_cast<void*>(kernel->driver_kernel));
    for (int i = kMaxDynamicSharedBytes; i < kKernelAttributes; ++i) {
      int value = 0;
      GORDIAN_EMU_DRIVER(cuFuncGetAttribute)(&value, static_cast<CUfunction_attribute>(i), handle);
      settings->Set(i, value);
    }
    return true;
  }
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  const auto at = registry.settings.find(kernel);
  if (at != registry.settings.end()) *settings = at->second;
  return true;
}

cudaError_t SetKernelAttribute(const void* function, int attribute, int value) {
  const Kernel* const kernel = FindKernel(function);
  if (kernel == nullptr) return cudaErrorInvalidResourceHandle;
  if (kernel->driver_kernel != nullptr) {
    const auto handle = static_cast<CUfunction>(const_cast<void*>(kernel->driver_kernel));
    return static_cast<cudaError_t>(GORDIAN_EMU_DRIVER(cuFuncSetAttribute)(
        handle, static_cast<CUfunction_attribute>(attribute), value));
  }
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  return static_cast<cudaError_t>(registry.settings[kernel].Set(attribute, value));
}

cudaError_t FindSymbol(const void* symbol, void** address, size_t* bytes) {
  int device = 0;
  const cudaError_t error = GetCurrentDevice(&device);
  if (error != cudaSuccess) return error;
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  const auto at = registry.variables.find(symbol);
  if (at == registry.variables.end()) return cudaErrorInvalidSymbol;
  void*& memory = at->second.memory[device];
  Allocation found;
  // A device reset frees it.
  if (memory == nullptr || !TheEngine().FindMemory(memory, &found)) {
    memory = TheEngine().Allocate(at->second.bytes, device);
    if (memory == nullptr) return cudaErrorMemoryAllocation;
    memset(memory, 0, at->second.bytes);
    memcpy(memory, at->second.initial.data(),
           std::min(at->second.initial.size(), at->second.bytes));
  }
  *address = memory;
  *bytes = at->second.bytes;
  return cudaSuccess;
}

}  // namespace gordian::emu

using namespace gordian::emu;  // NOLINT: every line below uses it

extern "C" {

void** __cudaRegisterFatBinary(void* binary) {
  auto* module = new Module;
  ParseDeviceImage(binary, 0, &module->image);
  return reinterpret_cast<void**>(module);
}

void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void** handle) {
  std::unique_ptr<Module> module(reinterpret_cast<Module*>(handle));
  if (module == nullptr) return;
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  for (const void* function : module->functions) registry.kernels.erase(function);
  for (const void* variable : module->variables) registry.variables.erase(variable);
}

void __cudaRegisterFunction(void** handle, const char* host_function, char*,
                            const char* device_name, int, uint3*, uint3*, dim3*, dim3*, int*) {
  auto* kernel = new Kernel;
  kernel->name = device_name != nullptr ? device_name : "";
  kernel->busy = IsBusy(kernel->name);
  if (handle != nullptr) {
    const auto& kernels = reinterpret_cast<Module*>(handle)->image.kernels;
    const auto known = kernels.find(kernel->name);
    if (known != kernels.end()) kernel->parameters = known->second.parameters;
  }
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  registry.kernels[host_function] = kernel;
  registry.handles.insert(kernel);
  if (handle != nullptr) reinterpret_cast<Module*>(handle)->functions.insert(host_function);
}

void __cudaRegisterVar(void** handle, char* host_variable, char*, const char* device_name, int,
                       size_t bytes, int, int) {
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  registry.variables[host_variable].bytes = bytes;
  if (handle == nullptr) return;
  auto* module = reinterpret_cast<Module*>(handle);
  module->variables.insert(host_variable);
  const auto known = module->image.variables.find(device_name != nullptr ? device_name : "");
  if (known != module->image.variables.end()) {
    registry.variables[host_variable].initial = known->second.initial;
  }
}

// Allocates at once: the program reads managed variables through this pointer without a call
// before.
void __cudaRegisterManagedVar(void** handle, void** host_variable, char*, const char* device_name,
                              int, size_t bytes, int, int) {
  *host_variable = calloc(1, bytes);
  if (handle == nullptr || device_name == nullptr || *host_variable == nullptr) return;
  const auto& variables = reinterpret_cast<Module*>(handle)->image.variables;
  const auto known = variables.find(device_name);
  if (known == variables.end()) return;
  memcpy(*host_variable, known->second.initial.data(),
         std::min(known->second.initial.size(), bytes));
}

void __cudaRegisterHostVar(void**, const char*, char*, size_t) {}

char __cudaInitModule(void**) { return 1; }

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  const Kernel* found = FindKernel(function);
  if (kernel == nullptr) return Return(cudaErrorInvalidValue);
  if (found == nullptr) return Return(cudaErrorInvalidDeviceFunction);
  const void* const handle = found->driver_kernel != nullptr ? found->driver_kernel : found;
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(handle));
  return cudaSuccess;
}

cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  return __cudaGetKernel(kernel, function);
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol) {
  const Kernel* found = FindKernel(symbol);
  if (function == nullptr) return Return(cudaErrorInvalidValue);
  if (found == nullptr) return Return(cudaErrorInvalidDeviceFunction);
  const void* const handle = found->driver_kernel != nullptr ? found->driver_kernel : found;
  *function = static_cast<cudaFunction_t>(const_cast<void*>(handle));
  return cudaSuccess;
}

}  // extern "C"
