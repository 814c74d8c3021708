// What nvcc's start-up code calls, and what it told.
#include "emulator/cudart/registry.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "emulator/cudart/runtime_common.h"
#include "emulator/engine/device_image.h"

namespace gordian::emu {
namespace {

struct Module {
  DeviceImage image;
  std::unordered_set<const void*> functions;  // host functions, to be forgotten with the module
  std::unordered_set<const void*> variables;
};

struct Variable {
  size_t bytes = 0;
  std::string initial;          // empty: zero, or not to be read in the image
  std::map<int, void*> memory;  // by device
};

struct Registry {
  std::mutex mutex;
  std::unordered_map<const void*, Kernel*> kernels;  // by host function
  std::unordered_set<const void*> handles;
  std::unordered_map<const void*, Variable> variables;  // by host shadow
};

// Used by static initialisers of the program, and after its static destructors: never destroyed.
Registry& TheRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

}  // namespace

const Kernel* FindKernel(const void* function) {
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  if (registry.handles.count(function) != 0) return static_cast<const Kernel*>(function);
  const auto at = registry.kernels.find(function);
  return at == registry.kernels.end() ? nullptr : at->second;
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
  // A device reset takes it away.
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
  kernel->busy = kernel->name.find("gordian_busy_us") != std::string::npos;
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

// The program reads managed variables through this pointer with no call before it, so it gets its
// memory here.
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
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<Kernel*>(found));
  return cudaSuccess;
}

cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  return __cudaGetKernel(kernel, function);
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol) {
  const Kernel* found = FindKernel(symbol);
  if (function == nullptr) return Return(cudaErrorInvalidValue);
  if (found == nullptr) return Return(cudaErrorInvalidDeviceFunction);
  *function = reinterpret_cast<cudaFunction_t>(const_cast<Kernel*>(found));
  return cudaSuccess;
}

}  // extern "C"
