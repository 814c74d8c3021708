// Virtual memory management: address ranges, physical memory, and mappings of one into the other.
// Physical memory is a memfd whose last page names its device.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <unordered_map>

#include "emulator/cuda/driver_common.h"
#include "emulator/engine/engine_impl.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

constexpr size_t kGranularity = 2 << 20;  // as an H200's, minimum and recommended
constexpr size_t kTrailerBytes = 4096;
constexpr uint64_t kMagic = 0x6c61'6369'7379'6870;

struct Trailer {
  uint64_t magic;
  int32_t physical_device;
  uint32_t handle_types;
};

struct Physical {
  int fd = -1;
  size_t bytes = 0;
  int device = 0;
  bool imported = false;
  unsigned handle_types = 0;
  int references = 1;  // handles given out, plus mappings
  int handles = 1;
};

struct Mapping {
  size_t bytes = 0;
  uint64_t handle = 0;
  std::map<int, unsigned> access;  // by device
};

struct Tables {
  std::mutex mutex;
  std::map<CUdeviceptr, size_t> ranges;  // reserved
  std::unordered_map<uint64_t, Physical> physical;
  std::map<CUdeviceptr, Mapping> mappings;
  uint64_t next_handle = 0x1000;
};

Tables& TheTables() {
  static Tables* const tables = new Tables;
  return *tables;
}

MemoryTable& Memory() { return EngineImpl::Get().memory(); }

bool Aligned(uint64_t value) { return value % kGranularity == 0; }

// Call under the lock.
void Unreference(Tables* tables, uint64_t handle) {
  Physical& physical = tables->physical[handle];
  if (--physical.references > 0) return;
  close(physical.fd);
  if (!physical.imported) Memory().Unreserve(physical.bytes, physical.device);
  tables->physical.erase(handle);
}

Physical* FindHandle(Tables* tables, uint64_t handle) {
  const auto at = tables->physical.find(handle);
  return at == tables->physical.end() || at->second.handles == 0 ? nullptr : &at->second;
}

bool InOneRange(const Tables& tables, CUdeviceptr address, size_t bytes) {
  auto at = tables.ranges.upper_bound(address);
  if (at == tables.ranges.begin()) return false;
  --at;
  return address - at->first <= at->second && bytes <= at->second - (address - at->first);
}

std::map<CUdeviceptr, Mapping>::iterator FindMapping(Tables* tables, CUdeviceptr address) {
  auto at = tables->mappings.upper_bound(address);
  if (at == tables->mappings.begin()) return tables->mappings.end();
  --at;
  return address - at->first < at->second.bytes ? at : tables->mappings.end();
}

CUresult CheckProperties(const CUmemAllocationProp* prop) {
  if (prop == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_NOT_SUPPORTED;  // host memory: as the device's attributes say
  }
  constexpr unsigned kKnown = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  if ((static_cast<unsigned>(prop->requestedHandleTypes) & ~kKnown) != 0) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CheckDevice(prop->location.id);
}

}  // namespace

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                       CUmemAllocationGranularity_flags) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  GORDIAN_EMU_CHECK(CheckProperties(prop));
  if (granularity == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *granularity = kGranularity;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr wish,
                             unsigned long long flags) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (address == nullptr || bytes == 0 || !Aligned(bytes) || flags != 0 ||
      (alignment & (alignment - 1)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (alignment < kGranularity) alignment = kGranularity;
  void* const all = mmap(Pointer(wish), bytes + alignment, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto start = reinterpret_cast<CUdeviceptr>(all);
  const CUdeviceptr aligned = (start + alignment - 1) / alignment * alignment;
  if (aligned > start) munmap(all, aligned - start);
  if (start + alignment > aligned) munmap(Pointer(aligned + bytes), start + alignment - aligned);
  Tables& tables = TheTables();
  std::lock_guard<std::mutex> lock(tables.mutex);
  tables.ranges[aligned] = bytes;
  *address = aligned;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  Tables& tables = TheTables();
  std::lock_guard<std::mutex> lock(tables.mutex);
  const auto at = tables.ranges.find(address);
  if (at == tables.ranges.end() || at->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  const auto mapped = tables.mappings.lower_bound(address);
  if (mapped != tables.mappings.end() && mapped->first < address + bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  munmap(Pointer(address), bytes);
  tables.ranges.erase(at);
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* prop, unsigned long long flags) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  GORDIAN_EMU_CHECK(CheckProperties(prop));
  if (handle == nullptr || bytes == 0 || !Aligned(bytes) || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Physical physical;
  physical.bytes = bytes;
  physical.device = prop->location.id;
  physical.handle_types = prop->requestedHandleTypes;
  if (!Memory().Reserve(bytes, physical.device)) return CUDA_ERROR_OUT_OF_MEMORY;
  physical.fd = memfd_create("gordian-emu-physical", MFD_CLOEXEC);
  const Trailer trailer{kMagic, TheEngine().PhysicalDevice(physical.device), physical.handle_types};
  if (physical.fd < 0 || ftruncate(physical.fd, static_cast<off_t>(bytes + kTrailerBytes)) != 0 ||
      pwrite(physical.fd, &trailer, sizeof(trailer), static_cast<off_t>(bytes)) !=
          static_cast<ssize_t>(sizeof(trailer))) {
    if (physical.fd >= 0) close(physical.fd);
    Memory().Unreserve(bytes, physical.device);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  Tables& tables = TheTables();
  std::lock_guard<std::mutex> lock(tables.mutex);
  *handle = tables.next_handle++;
  tables.physical[*handle] = physical;
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  Tables& tables = TheTables();
  std::lock_guard<std::mutex> lock(tables.mutex);
  Physical* const physical = FindHandle(&tables, handle);
  if (physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
  --physical->handles;
  Unreference(&tables, handle);  // mappings keep the memory alive
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  Tables& tables = TheTables();
  std::lock_guard<std::mutex> lock(tables.mutex);
  Physical* const physical = FindHandle(&tables, handle);
  if (physical == nullptr || flags != 0 || bytes == 0 || !Aligned(address) || !Aligned(bytes) ||
      !Aligned(offset) || offset > physical->bytes || bytes > physical->bytes - offset ||
      !InOneRange(tables, address, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto next = tables.mappings.lower_bound(address);
  const bool taken = next != tables.mappings.end() && next->first < address + bytes;
  if (taken || FindMapping(&tables, address) != tables.mappings.end()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // No access before cuMemSetAccess.
  if (mmap(Pointer(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->fd,
           static_cast<off_t>(offset)) == MAP_FAILED) {
    return CUDA_ERROR_MAP_FAILED;
  }
  ++physical->references;
  tables.mappings[address] = {bytes, handle, {}};
  Allocation allocation;
  allocation.base = address;
  allocation.bytes = bytes;
  allocation.device = physical->device;
  allocation.origin = MemoryOrigin::kVirtual;
  Memory().Insert(allocation);
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  int device = 0;
  {
    Tables& tables = TheTables();
    std::lock_guard<std::mutex> lock(tables.mutex);
    const auto at = tables.mappings.find(address);
    if (at == tables.mappings.end()) return CUDA_ERROR_INVALID_VALUE;
    device = tables.physical[at->second.handle].device;
  }
  // Earlier work may still use it.
  TheEngine().SynchronizeDevice(device);
  Tables& tables = TheTables();
  std::lock_guard<std::mutex> lock(tables.mutex);
  // The range must consist of whole mappings.
  CUdeviceptr end = address;
  for (auto at = tables.mappings.find(address);
       at != tables.mappings.end() && at->first == end && end < address + bytes; ++at) {
    end += at->second.bytes;
  }
  if (end != address + bytes) return CUDA_ERROR_INVALID_VALUE;
  for (auto at = tables.mappings.find(address);
       at != tables.mappings.end() && at->first < address + bytes;) {
    Memory().Release(Pointer(at->first));
    mmap(Pointer(at->first), at->second.bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    Unreference(&tables, at->second.handle);
    at = tables.mappings.erase(at);
  }
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* accesses,
                        size_t count) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (accesses == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    if (accesses[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    GORDIAN_EMU_CHECK(CheckDevice(accesses[i].location.id));
  }
  Tables& tables = TheTables();
  std::lock_guard<std::mutex> lock(tables.mutex);
  for (CUdeviceptr each = address; each < address + bytes;) {
    const auto at = tables.mappings.find(each);
    if (at == tables.mappings.end() || at->second.bytes > address + bytes - each) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    each += at->second.bytes;
  }
  for (auto at = tables.mappings.find(address);
       at != tables.mappings.end() && at->first < address + bytes; ++at) {
    unsigned any = 0;
    for (size_t i = 0; i < count; ++i) {
      at->second.access[accesses[i].location.id] = accesses[i].flags;
    }
    for (const auto& [device, flags] : at->second.access) any |= flags;
    const int protection = any == CU_MEM_ACCESS_FLAGS_PROT_NONE   ? PROT_NONE
                           : any == CU_MEM_ACCESS_FLAGS_PROT_READ ? PROT_READ
                                                                  : PROT_READ | PROT_WRITE;
    mprotect(Pointer(at->first), at->second.bytes, protection);
  }
  return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                        CUdeviceptr address) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (flags == nullptr || location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Tables& tables = TheTables();
  std::lock_guard<std::mutex> lock(tables.mutex);
  const auto at = FindMapping(&tables, address);
  if (at == tables.mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  const auto found = at->second.access.find(location->id);
  *flags = found == at->second.access.end() ? 0 : found->second;
  return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  Tables& tables = TheTables();
  std::lock_guard<std::mutex> lock(tables.mutex);
  Physical* const physical = FindHandle(&tables, handle);
  if (out == nullptr || flags != 0 || physical == nullptr ||
      (physical->handle_types & static_cast<unsigned>(type)) == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int fd = fcntl(physical->fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(out) = fd;
  return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* os_handle,
                                        CUmemAllocationHandleType type) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const int given = static_cast<int>(reinterpret_cast<intptr_t>(os_handle));
  struct stat info {};
  Trailer trailer{};
  if (fstat(given, &info) != 0 || info.st_size <= static_cast<off_t>(kTrailerBytes) ||
      pread(given, &trailer, sizeof(trailer), info.st_size - static_cast<off_t>(kTrailerBytes)) !=
          static_cast<ssize_t>(sizeof(trailer)) ||
      trailer.magic != kMagic) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Physical physical;
  physical.fd = fcntl(given, F_DUPFD_CLOEXEC, 0);
  physical.bytes = static_cast<size_t>(info.st_size) - kTrailerBytes;
  physical.imported = true;
  physical.handle_types = trailer.handle_types;
  for (int i = 0; i < TheEngine().DeviceCount(); ++i) {
    if (TheEngine().PhysicalDevice(i) == trailer.physical_device) physical.device = i;
  }
  if (physical.fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  Tables& tables = TheTables();
  std::lock_guard<std::mutex> lock(tables.mutex);
  *handle = tables.next_handle++;
  tables.physical[*handle] = physical;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                CUmemGenericAllocationHandle handle) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  Tables& tables = TheTables();
  std::lock_guard<std::mutex> lock(tables.mutex);
  const Physical* const physical = FindHandle(&tables, handle);
  if (prop == nullptr || physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *prop = {};
  prop->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop->requestedHandleTypes = static_cast<CUmemAllocationHandleType>(physical->handle_types);
  prop->location = {CU_MEM_LOCATION_TYPE_DEVICE, {physical->device}};
  return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  Tables& tables = TheTables();
  std::lock_guard<std::mutex> lock(tables.mutex);
  const auto at = FindMapping(&tables, reinterpret_cast<CUdeviceptr>(address));
  if (handle == nullptr || at == tables.mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  Physical& physical = tables.physical[at->second.handle];
  ++physical.references;
  ++physical.handles;
  *handle = at->second.handle;
  return CUDA_SUCCESS;
}

}  // extern "C"
