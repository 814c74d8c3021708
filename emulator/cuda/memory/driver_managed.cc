// Managed memory: advice, prefetches and discards. All devices see it already, so these move
// nothing; the emulator stores the advice by page and returns it.
#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "emulator/cuda/driver_common.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

constexpr int kNotADevice = CU_DEVICE_INVALID;
constexpr CUmemLocation kNowhere = {CU_MEM_LOCATION_TYPE_INVALID, {0}};

bool Same(const CUmemLocation& a, const CUmemLocation& b) {
  return a.type == b.type && a.id == b.id;
}

struct Advice {
  bool read_mostly = false;
  CUmemLocation preferred = kNowhere;
  std::set<int> accessed_by;
  CUmemLocation last_prefetch = kNowhere;
};

// A run of pages with equal advice, whose allocation may be gone.
struct Pages {
  uintptr_t end = 0;
  uint64_t allocation = 0;
  Advice advice;
};

class AdviceTable {
 public:
  template <typename Update>
  void Change(uintptr_t begin, uintptr_t end, uint64_t allocation, Update update) {
    std::lock_guard<std::mutex> lock(mutex_);
    ForEach(begin, end, allocation, update);
  }

 private:
  void Split(uintptr_t at) {
    auto after = pages_.upper_bound(at);
    if (after == pages_.begin()) return;
    const auto holder = std::prev(after);
    if (holder->first == at || holder->second.end <= at) return;
    const Pages rest = holder->second;
    holder->second.end = at;
    pages_[at] = rest;
  }

  // Calls `update(Advice*)` for runs that together cover exactly [begin, end).
  template <typename Update>
  void ForEach(uintptr_t begin, uintptr_t end, uint64_t allocation, Update update) {
    Split(begin);
    Split(end);
    uintptr_t at = begin;
    for (auto it = pages_.lower_bound(begin); at < end; ++it) {
      if (it == pages_.end() || it->first > at) {
        const uintptr_t next = it == pages_.end() ? end : std::min(end, it->first);
        it = pages_.insert(it, {at, Pages{next, allocation, {}}});
      } else if (it->second.allocation != allocation) {
        it->second.allocation = allocation;
        it->second.advice = {};
      }
      update(&it->second.advice);
      at = it->second.end;
    }
  }

  std::mutex mutex_;
  std::map<uintptr_t, Pages> pages_;  // by first address, disjoint
};

AdviceTable& TheAdvice() {
  static AdviceTable* const table = new AdviceTable;
  return *table;
}

CUresult CheckManaged(CUdeviceptr address, size_t bytes, Allocation* found) {
  if (bytes == 0 || !TheEngine().FindMemory(Pointer(address), found) ||
      found->kind != MemoryKind::kManaged || bytes > found->bytes - (address - found->base)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

// Advice applies to every page that the range touches, counted from the allocation's start.
template <typename Update>
CUresult ForPages(CUdeviceptr address, size_t bytes, Update update) {
  constexpr uintptr_t kPage = 4096;
  Allocation found;
  GORDIAN_EMU_CHECK(CheckManaged(address, bytes, &found));
  const uintptr_t offset = address - found.base;
  const uintptr_t begin = found.base + offset / kPage * kPage;
  const uintptr_t end =
      found.base + std::min<uintptr_t>((offset + bytes + kPage - 1) / kPage * kPage, found.bytes);
  TheAdvice().Change(begin, end, found.id, update);
  return CUDA_SUCCESS;
}

CUresult CheckLocation(const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return CheckDevice(location.id);
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return location.id >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult CheckOrderedOn(CUstream stream) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  StreamInfo info;
  return Result(TheEngine().DescribeStream(stream, &info));
}

// The place in the older attributes' terms: a device, the host, or neither.
int DeviceOf(const CUmemLocation& location) {
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) return location.id;
  return location.type == CU_MEM_LOCATION_TYPE_HOST ? CU_DEVICE_CPU : kNotADevice;
}

// The advice common to all pages of a range.
struct Common {
  bool any = false;
  Advice advice;

  void Add(const Advice& other) {
    if (!any) {
      any = true;
      advice = other;
      return;
    }
    advice.read_mostly = advice.read_mostly && other.read_mostly;
    if (!Same(advice.preferred, other.preferred)) advice.preferred = kNowhere;
    if (!Same(advice.last_prefetch, other.last_prefetch)) advice.last_prefetch = kNowhere;
    for (auto it = advice.accessed_by.begin(); it != advice.accessed_by.end();) {
      it = other.accessed_by.count(*it) != 0 ? std::next(it) : advice.accessed_by.erase(it);
    }
  }
};

CUresult CheckAttribute(const void* data, size_t data_bytes, CUmem_range_attribute attribute) {
  if (data == nullptr || attribute < CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ||
      attribute > CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool several = attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
  const bool fits =
      several ? data_bytes > 0 && data_bytes % sizeof(int) == 0 : data_bytes == sizeof(int);
  return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void Tell(const Advice& advice, CUmem_range_attribute attribute, int* out, size_t count) {
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      *out = advice.read_mostly ? 1 : 0;
      return;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
      *out = DeviceOf(advice.preferred);
      return;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      *out = DeviceOf(advice.last_prefetch);
      return;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
      *out = advice.preferred.type;
      return;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
      *out = advice.preferred.id;
      return;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      *out = advice.last_prefetch.type;
      return;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
      *out = advice.last_prefetch.id;
      return;
    default:
      break;
  }
  auto next = advice.accessed_by.begin();
  for (size_t i = 0; i < count; ++i) {
    out[i] = next == advice.accessed_by.end() ? kNotADevice : *next++;
  }
}

// Checks a whole batch before doing any of it.
CUresult CheckBatch(const CUdeviceptr* addresses, const size_t* sizes, size_t count,
                    unsigned long long flags, CUstream stream) {
  // The legacy stream rejects batches.
  if (stream == nullptr || stream == CU_STREAM_LEGACY) return CUDA_ERROR_INVALID_VALUE;
  GORDIAN_EMU_CHECK(CheckOrderedOn(stream));
  if (addresses == nullptr || sizes == nullptr || count == 0 || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    Allocation found;
    GORDIAN_EMU_CHECK(CheckManaged(addresses[i], sizes[i], &found));
  }
  return CUDA_SUCCESS;
}

CUresult PrefetchBatch(const CUdeviceptr* addresses, const size_t* sizes, size_t count,
                       const CUmemLocation* locations, const size_t* starts, size_t locations_count,
                       unsigned long long flags, CUstream stream) {
  GORDIAN_EMU_CHECK(CheckBatch(addresses, sizes, count, flags, stream));
  if (locations == nullptr || starts == nullptr || locations_count == 0 ||
      locations_count > count || starts[0] != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < locations_count; ++i) {
    if (starts[i] >= count || (i > 0 && starts[i] <= starts[i - 1])) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    GORDIAN_EMU_CHECK(CheckLocation(locations[i]));
  }
  size_t place = 0;
  for (size_t i = 0; i < count; ++i) {
    if (place + 1 < locations_count && starts[place + 1] == i) ++place;
    const CUmemLocation location = locations[place];
    GORDIAN_EMU_CHECK(ForPages(addresses[i], sizes[i],
                               [&location](Advice* advice) { advice->last_prefetch = location; }));
  }
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation location,
                               unsigned flags, CUstream stream) {
  GORDIAN_EMU_CHECK(CheckOrderedOn(stream));
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  GORDIAN_EMU_CHECK(CheckLocation(location));
  return ForPages(address, bytes,
                  [&location](Advice* advice) { advice->last_prefetch = location; });
}

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise advice,
                        CUmemLocation location) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  const int accessor = DeviceOf(location);
  switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
      return ForPages(address, bytes, [advice](Advice* of_pages) {
        of_pages->read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
      });
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
      GORDIAN_EMU_CHECK(CheckLocation(location));
      return ForPages(address, bytes,
                      [&location](Advice* of_pages) { of_pages->preferred = location; });
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
      return ForPages(address, bytes, [](Advice* of_pages) { of_pages->preferred = kNowhere; });
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
      GORDIAN_EMU_CHECK(CheckLocation(location));
      if (accessor == kNotADevice) return CUDA_ERROR_INVALID_VALUE;
      return ForPages(address, bytes, [advice, accessor](Advice* of_pages) {
        of_pages->accessed_by.erase(accessor);
        if (advice == CU_MEM_ADVISE_SET_ACCESSED_BY) of_pages->accessed_by.insert(accessor);
      });
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuMemRangeGetAttributes(void** data, size_t* data_bytes, CUmem_range_attribute* attributes,
                                 size_t count, CUdeviceptr address, size_t bytes) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (data == nullptr || data_bytes == nullptr || attributes == nullptr || count == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    GORDIAN_EMU_CHECK(CheckAttribute(data[i], data_bytes[i], attributes[i]));
  }
  Common common;
  GORDIAN_EMU_CHECK(ForPages(address, bytes, [&common](Advice* advice) { common.Add(*advice); }));
  for (size_t i = 0; i < count; ++i) {
    Tell(common.advice, attributes[i], static_cast<int*>(data[i]), data_bytes[i] / sizeof(int));
  }
  return CUDA_SUCCESS;
}

CUresult cuMemRangeGetAttribute(void* data, size_t data_bytes, CUmem_range_attribute attribute,
                                CUdeviceptr address, size_t bytes) {
  return cuMemRangeGetAttributes(&data, &data_bytes, &attribute, 1, address, bytes);
}

CUresult cuMemPrefetchBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                 CUmemLocation* locations, size_t* starts, size_t locations_count,
                                 unsigned long long flags, CUstream stream) {
  return PrefetchBatch(addresses, sizes, count, locations, starts, locations_count, flags, stream);
}

// A program may still read discarded memory, and find anything, including its old contents.
CUresult cuMemDiscardBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                unsigned long long flags, CUstream stream) {
  return CheckBatch(addresses, sizes, count, flags, stream);
}

CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                           CUmemLocation* locations, size_t* starts,
                                           size_t locations_count, unsigned long long flags,
                                           CUstream stream) {
  return PrefetchBatch(addresses, sizes, count, locations, starts, locations_count, flags, stream);
}

CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t bytes,
                                unsigned flags) {
  GORDIAN_EMU_CHECK(CheckOrderedOn(stream));
  const bool known =
      flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST || flags == CU_MEM_ATTACH_SINGLE;
  // Memory cannot be attached to the legacy stream alone.
  const bool legacy = stream == nullptr || stream == CU_STREAM_LEGACY;
  if (!known || (flags == CU_MEM_ATTACH_SINGLE && legacy)) return CUDA_ERROR_INVALID_VALUE;
  // For managed memory the size must be the whole allocation's, or 0 for that.
  Allocation found;
  GORDIAN_EMU_CHECK(CheckManaged(address, 1, &found));
  return address == found.base && (bytes == 0 || bytes == found.bytes) ? CUDA_SUCCESS
                                                                       : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr address, size_t bytes, CUmemLocation location,
                                    unsigned flags, CUstream stream) {
  return cuMemPrefetchAsync_v2(address, bytes, location, flags, PerThread(stream));
}
CUresult cuMemPrefetchBatchAsync_ptsz(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                      CUmemLocation* locations, size_t* starts,
                                      size_t locations_count, unsigned long long flags,
                                      CUstream stream) {
  return PrefetchBatch(addresses, sizes, count, locations, starts, locations_count, flags,
                       PerThread(stream));
}
CUresult cuMemDiscardBatchAsync_ptsz(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                     unsigned long long flags, CUstream stream) {
  return CheckBatch(addresses, sizes, count, flags, PerThread(stream));
}
CUresult cuMemDiscardAndPrefetchBatchAsync_ptsz(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                                CUmemLocation* locations, size_t* starts,
                                                size_t locations_count, unsigned long long flags,
                                                CUstream stream) {
  return PrefetchBatch(addresses, sizes, count, locations, starts, locations_count, flags,
                       PerThread(stream));
}
CUresult cuStreamAttachMemAsync_ptsz(CUstream stream, CUdeviceptr address, size_t bytes,
                                     unsigned flags) {
  return cuStreamAttachMemAsync(PerThread(stream), address, bytes, flags);
}

}  // extern "C"
