// Registered memory on its way to other processes, over a driver of this test's own: what is mapped
// where, who keeps what, and that everything comes back.
#include "runtime/cuda_api/exports.h"

#include <gtest/gtest.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cuda/driver/mapped_range.h"
#include "runtime/cuda_api/piece_server.h"

namespace gordian::runtime::cuda {
namespace {

constexpr uint64_t kUnit = 2 << 20;

// Physical memory is a number; who refers to it: handles, mappings, and descriptors that are on
// their way.
struct FakeDriver {
  struct Physical {
    uint64_t bytes = 0;
    int device = 0;
    bool exportable = true;
    int references = 0;
  };
  struct Handle {
    int physical = 0, references = 0;
  };
  struct Mapping {
    uint64_t bytes = 0;
    int physical = 0;
    CUmemGenericAllocationHandle handle = 0;
    std::vector<int> devices;
  };
  std::mutex mutex;
  std::map<int, Physical> physical;
  std::map<CUmemGenericAllocationHandle, Handle> handles;
  std::map<uint64_t, Mapping> mappings;
  uint64_t next_address = 1ull << 40;
  CUmemGenericAllocationHandle next_handle = 100;
  int next_physical = 1;
  int fail_access_of = -1;  // a device
  std::function<void()> in_unmap;

  int References(int number) {
    const std::lock_guard<std::mutex> lock(mutex);
    return physical.contains(number) ? physical[number].references : 0;
  }
  // What is mapped there; 0: nothing.
  int At(uint64_t address) {
    const std::lock_guard<std::mutex> lock(mutex);
    const Mapping* m = Around(&address);
    return m != nullptr ? m->physical : 0;
  }
  bool MayAccess(uint64_t address, int device) {
    const std::lock_guard<std::mutex> lock(mutex);
    const Mapping* m = Around(&address);
    return m != nullptr &&
           std::find(m->devices.begin(), m->devices.end(), device) != m->devices.end();
  }
  size_t MappingsOf(int number) {
    const std::lock_guard<std::mutex> lock(mutex);
    size_t count = 0;
    for (const auto& [at, m] : mappings) count += m.physical == number ? 1 : 0;
    return count;
  }

  // With the lock held. `address` becomes the mapping's.
  Mapping* Around(uint64_t* address) {
    auto at = mappings.upper_bound(*address);
    if (at == mappings.begin()) return nullptr;
    --at;
    if (*address - at->first >= at->second.bytes) return nullptr;
    *address = at->first;
    return &at->second;
  }
  void Drop(int number) {
    if (--physical[number].references == 0) physical.erase(number);
  }
};
FakeDriver* g_fake = nullptr;
using Lock = std::lock_guard<std::mutex>;

CUmemGenericAllocationHandle NewHandle(int number) {
  const CUmemGenericAllocationHandle handle = g_fake->next_handle++;
  g_fake->handles[handle] = {number, 1};
  ++g_fake->physical[number].references;
  return handle;
}
CUresult Granularity(size_t* unit, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  *unit = kUnit;
  return CUDA_SUCCESS;
}
CUresult Create(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* p,
                unsigned long long) {
  const Lock lock(g_fake->mutex);
  const int number = g_fake->next_physical++;
  g_fake->physical[number] = {bytes, p->location.id,
                              p->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                              0};
  *handle = NewHandle(number);
  return CUDA_SUCCESS;
}
CUresult Release(CUmemGenericAllocationHandle handle) {
  const Lock lock(g_fake->mutex);
  const auto at = g_fake->handles.find(handle);
  if (at == g_fake->handles.end()) return CUDA_ERROR_INVALID_VALUE;
  if (--at->second.references > 0) return CUDA_SUCCESS;
  const int number = at->second.physical;
  g_fake->handles.erase(at);
  g_fake->Drop(number);
  return CUDA_SUCCESS;
}
// A file that holds the number.
CUresult ExportHandle(void* descriptor, CUmemGenericAllocationHandle handle,
                      CUmemAllocationHandleType, unsigned long long) {
  const Lock lock(g_fake->mutex);
  const int number = g_fake->handles.at(handle).physical;
  if (!g_fake->physical.at(number).exportable) return CUDA_ERROR_NOT_SUPPORTED;
  const int fd = memfd_create("physical", MFD_CLOEXEC);
  if (write(fd, &number, sizeof number) != sizeof number) return CUDA_ERROR_UNKNOWN;
  memcpy(descriptor, &fd, sizeof fd);
  return CUDA_SUCCESS;
}
CUresult ImportHandle(CUmemGenericAllocationHandle* handle, void* descriptor,
                      CUmemAllocationHandleType) {
  int number = 0;
  const auto fd = static_cast<int>(reinterpret_cast<intptr_t>(descriptor));
  if (pread(fd, &number, sizeof number, 0) != sizeof number) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock(g_fake->mutex);
  if (!g_fake->physical.contains(number)) return CUDA_ERROR_INVALID_VALUE;
  *handle = NewHandle(number);
  return CUDA_SUCCESS;
}
CUresult Reserve(CUdeviceptr* at, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  const Lock lock(g_fake->mutex);
  *at = g_fake->next_address;
  g_fake->next_address += bytes;
  return CUDA_SUCCESS;
}
CUresult FreeAddress(CUdeviceptr, size_t) { return CUDA_SUCCESS; }
CUresult Map(CUdeviceptr at, size_t bytes, size_t, CUmemGenericAllocationHandle handle,
             unsigned long long) {
  const Lock lock(g_fake->mutex);
  uint64_t begin = at;
  const auto next = g_fake->mappings.lower_bound(at);
  if (at % kUnit != 0 || g_fake->Around(&begin) != nullptr ||
      (next != g_fake->mappings.end() && next->first < at + bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int number = g_fake->handles.at(handle).physical;
  g_fake->mappings[at] = {bytes, number, handle, {}};
  ++g_fake->physical[number].references;
  return CUDA_SUCCESS;
}
CUresult Unmap(CUdeviceptr at, size_t bytes) {
  if (g_fake->in_unmap) g_fake->in_unmap();
  const Lock lock(g_fake->mutex);
  const auto known = g_fake->mappings.find(at);
  if (known == g_fake->mappings.end() || known->second.bytes != bytes)
    return CUDA_ERROR_INVALID_VALUE;
  const int number = known->second.physical;
  g_fake->mappings.erase(known);
  g_fake->Drop(number);
  return CUDA_SUCCESS;
}
CUresult SetAccess(CUdeviceptr at, size_t, const CUmemAccessDesc* access, size_t) {
  const Lock lock(g_fake->mutex);
  if (access->location.id == g_fake->fail_access_of) return CUDA_ERROR_INVALID_DEVICE;
  uint64_t begin = at;
  FakeDriver::Mapping* m = g_fake->Around(&begin);
  if (m == nullptr) return CUDA_ERROR_INVALID_VALUE;
  m->devices.push_back(access->location.id);
  return CUDA_SUCCESS;
}
CUresult Retain(CUmemGenericAllocationHandle* handle, void* address) {
  const Lock lock(g_fake->mutex);
  auto begin = reinterpret_cast<uint64_t>(address);
  const FakeDriver::Mapping* m = g_fake->Around(&begin);
  if (m == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // The handle's value is that of the mapping, also where the program has released it.
  FakeDriver::Handle& known = g_fake->handles[m->handle];
  if (known.references++ == 0) {
    known.physical = m->physical;
    ++g_fake->physical[m->physical].references;
  }
  *handle = m->handle;
  return CUDA_SUCCESS;
}
CUresult PropertiesOf(CUmemAllocationProp* p, CUmemGenericAllocationHandle handle) {
  const Lock lock(g_fake->mutex);
  const FakeDriver::Physical& physical = g_fake->physical.at(g_fake->handles.at(handle).physical);
  *p = {};
  p->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p->location.id = physical.device;
  if (physical.exportable) p->requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return CUDA_SUCCESS;
}
CUresult PointerAttribute(void* value, CUpointer_attribute what, CUdeviceptr at) {
  const Lock lock(g_fake->mutex);
  uint64_t begin = at;
  const FakeDriver::Mapping* m = g_fake->Around(&begin);
  if (m == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t answer = what == CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR ? begin : m->bytes;
  memcpy(value, &answer, sizeof answer);
  return CUDA_SUCCESS;
}

const Driver kDriver = {Granularity,     Create, Release, ExportHandle, ImportHandle, Reserve,
                        FreeAddress,     Map,    Unmap,   SetAccess,    Retain,       PropertiesOf,
                        PointerAttribute};

// What the program has: allocations behind each other, each of so many units. Its own handles are
// released, as PyTorch keeps them and ncclMemAlloc does not: here they are not.
struct Memory {
  Memory(int device, const std::vector<uint64_t>& units, bool exportable = true, uint64_t at = 0) {
    uint64_t bytes = 0;
    for (const uint64_t n : units) bytes += n * kUnit;
    base = at;
    if (at == 0) Reserve(&base, bytes + kUnit, 0, 0, 0);
    uint64_t to = base;
    for (const uint64_t n : units) {
      CUmemAllocationProp p = {};
      p.location.id = device;
      if (exportable) p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
      CUmemGenericAllocationHandle handle = 0;
      Create(&handle, n * kUnit, &p, 0);
      Map(to, n * kUnit, 0, handle, 0);
      Release(handle);
      numbers.push_back(g_fake->At(to));
      sizes.push_back(n * kUnit);
      to += n * kUnit;
    }
  }
  void Free() {
    uint64_t at = base;
    for (const uint64_t bytes : sizes) {
      Unmap(at, bytes);
      at += bytes;
    }
    sizes.clear();
  }
  void* get(uint64_t byte = 0) const { return reinterpret_cast<void*>(base + byte); }

  CUdeviceptr base = 0;
  std::vector<int> numbers;
  std::vector<uint64_t> sizes;
};

// A process with a device.
struct Place {
  explicit Place(int number) : device(number) {
    EXPECT_TRUE(MappedRange::Reserve(&kDriver, device, &own).ok());
    PieceServer::Handlers handlers;
    handlers.find = [](uint64_t, uint64_t*) { return -1; };
    handlers.take = [this](const std::string& owner, uint64_t offset, uint64_t bytes,
                           int descriptor) {
      if (before_taking) before_taking();
      return RangeOf(owner)->MapDescriptor(offset, bytes, descriptor).ok();
    };
    handlers.leave = [this](const std::string& owner, uint64_t offset) {
      return RangeOf(owner)->Unmap(offset).ok();
    };
    EXPECT_TRUE(PieceServer::Start(handlers, &server).ok());
    exports = std::make_unique<Exports>(&kDriver, device, own.get(), server->name(),
                                        [this] { entered = std::this_thread::get_id(); });
  }
  MappedRange* RangeOf(const std::string& owner) {
    const Lock lock(mutex);
    std::unique_ptr<MappedRange>& known = ranges[owner];
    if (known != nullptr) return known.get();
    EXPECT_TRUE(MappedRange::Reserve(&kDriver, device, &known).ok());
    return known.get();
  }
  uint64_t Address(const Place& owner, uint64_t offset) {
    return reinterpret_cast<uint64_t>(RangeOf(owner.server->name())->base()) + offset;
  }
  Exports::Peer peer() const { return {server->name(), -1}; }

  const int device;
  std::function<void()> before_taking;
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<MappedRange>> ranges;
  std::unique_ptr<MappedRange> own;
  std::unique_ptr<PieceServer> server;
  std::atomic<std::thread::id> entered;  // the thread that gives up
  std::unique_ptr<Exports> exports;
};

constexpr int kMs = 20000;

class ExportsTest : public ::testing::Test {
 protected:
  ExportsTest() { g_fake = &fake_; }
  // Until the table of exports has so many: an end that was not awaited comes when it comes.
  static bool Has(Exports& exports, size_t count) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (exports.count() != count || !exports.AwaitSettled(100)) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }
  void End(Exports& exports, std::shared_ptr<Exports::Export>* held) {
    held->reset();
    exports.Look();
    EXPECT_TRUE(exports.AwaitSettled(kMs));
  }

  FakeDriver fake_;
};

TEST_F(ExportsTest, AllHaveItAtOneOffsetUntilNobodyHoldsIt) {
  Place a(0), b(1), c(2);
  Memory memory(0, {3});
  std::shared_ptr<Exports::Export> e;
  ASSERT_EQ(a.exports->Make(memory.get(5), kUnit, {b.peer(), c.peer()}, kMs, &e), grtSuccess);
  EXPECT_EQ(e->begin(), memory.base);
  EXPECT_EQ(e->end(), memory.base + 3 * kUnit);
  EXPECT_GE(e->offset(), kHeapRangeBytes);
  for (Place* peer : {&b, &c}) {
    EXPECT_EQ(fake_.At(peer->Address(a, e->offset() + 2 * kUnit)), memory.numbers[0]);
    EXPECT_TRUE(fake_.MayAccess(peer->Address(a, e->offset()), peer->device));
  }
  const uint64_t offset = e->offset();
  // The program may free it: it is there for as long as it is registered.
  memory.Free();
  EXPECT_EQ(fake_.At(b.Address(a, offset)), memory.numbers[0]);
  End(*a.exports, &e);
  EXPECT_EQ(a.exports->count(), 0u);
  EXPECT_EQ(fake_.At(b.Address(a, offset)), 0);
  EXPECT_EQ(fake_.References(memory.numbers[0]), 0);
  // And its offsets are used again.
  Memory next(0, {1});
  ASSERT_EQ(a.exports->Make(next.get(), 1, {b.peer()}, kMs, &e), grtSuccess);
  EXPECT_EQ(e->offset(), offset);
  EXPECT_EQ(fake_.At(b.Address(a, offset)), next.numbers[0]);
}

TEST_F(ExportsTest, SeveralAllocationsBehindEachOther) {
  Place a(0), b(1);
  Memory memory(0, {1, 2, 1, 1});
  std::shared_ptr<Exports::Export> e;
  // From within the second to within the third.
  ASSERT_EQ(a.exports->Make(memory.get(2 * kUnit), kUnit + 1, {b.peer()}, kMs, &e), grtSuccess);
  EXPECT_EQ(e->begin(), memory.base + kUnit);
  EXPECT_EQ(e->end(), memory.base + 4 * kUnit);
  for (uint64_t at = 0; at < 3; ++at) {
    EXPECT_EQ(fake_.At(b.Address(a, e->offset() + at * kUnit)),
              fake_.At(memory.base + (1 + at) * kUnit));
  }
  EXPECT_EQ(fake_.At(b.Address(a, e->offset() + 3 * kUnit)), 0);
  End(*a.exports, &e);
  for (const int number : memory.numbers) EXPECT_EQ(fake_.MappingsOf(number), 1u);
}

TEST_F(ExportsTest, WhatCannotBeHandedOutIsNotAndItsTwinIs) {
  Place a(0), b(1);
  Memory good(0, {1}), hidden(0, {1}, false), elsewhere(3, {1}), mixed(0, {1});
  Memory behind(0, {1}, false, mixed.base + kUnit);
  std::shared_ptr<Exports::Export> e;
  int on_stack = 0;
  EXPECT_EQ(a.exports->Make(&on_stack, 4, {b.peer()}, kMs, &e), grtNotSupported);
  EXPECT_EQ(a.exports->Make(hidden.get(), kUnit, {b.peer()}, kMs, &e), grtNotSupported);
  EXPECT_EQ(a.exports->Make(elsewhere.get(), kUnit, {b.peer()}, kMs, &e), grtNotSupported);
  EXPECT_EQ(a.exports->Make(good.get(), 2 * kUnit, {b.peer()}, kMs, &e),
            grtNotSupported);  // beyond its end
  EXPECT_EQ(a.exports->Make(mixed.get(), 2 * kUnit, {b.peer()}, kMs, &e), grtNotSupported);
  EXPECT_EQ(a.exports->Make(good.get(), 0, {b.peer()}, kMs, &e), grtInvalidArgument);
  EXPECT_EQ(e, nullptr);
  EXPECT_EQ(a.exports->count(), 0u);
  for (Memory* m : {&good, &hidden, &elsewhere, &mixed})
    EXPECT_EQ(fake_.References(m->numbers[0]), 1);
  EXPECT_EQ(a.exports->Make(good.get(), kUnit, {b.peer()}, kMs, &e), grtSuccess);
}

TEST_F(ExportsTest, OneAllocationIsMappedOnceHoweverOftenItIsRegistered) {
  Place a(0), b(1), c(2);
  Memory memory(0, {4});
  std::shared_ptr<Exports::Export> first, second;
  ASSERT_EQ(a.exports->Make(memory.get(), kUnit, {b.peer()}, kMs, &first), grtSuccess);
  ASSERT_EQ(a.exports->Make(memory.get(2 * kUnit), kUnit, {b.peer(), c.peer()}, kMs, &second),
            grtSuccess);
  EXPECT_EQ(first, second);
  EXPECT_EQ(fake_.MappingsOf(memory.numbers[0]), 3u);  // the program's, b's, c's
  End(*a.exports, &first);
  EXPECT_EQ(fake_.MappingsOf(memory.numbers[0]), 3u);
  End(*a.exports, &second);
  EXPECT_EQ(fake_.MappingsOf(memory.numbers[0]), 1u);
}

// Freed without a word, and another's is at the same addresses now.
TEST_F(ExportsTest, AnAddressAloneIsNoMemory) {
  Place a(0), b(1);
  Memory old(0, {2});
  std::shared_ptr<Exports::Export> stale, fresh;
  ASSERT_EQ(a.exports->Make(old.get(), 2 * kUnit, {b.peer()}, kMs, &stale), grtSuccess);
  EXPECT_TRUE(a.exports->IsStillThere(*stale, old.base, old.base + 2 * kUnit));
  const uint64_t at = old.base;
  old.Free();
  EXPECT_FALSE(a.exports->IsStillThere(*stale, at, at + 1));
  Memory next(0, {2}, true, at);
  EXPECT_FALSE(a.exports->IsStillThere(*stale, at, at + kUnit));
  ASSERT_EQ(a.exports->Make(next.get(), 2 * kUnit, {b.peer()}, kMs, &fresh), grtSuccess);
  EXPECT_NE(stale, fresh);
  EXPECT_TRUE(a.exports->IsStillThere(*fresh, at, at + kUnit));
  EXPECT_EQ(fake_.At(b.Address(a, stale->offset())), old.numbers[0]);
  EXPECT_EQ(fake_.At(b.Address(a, fresh->offset())), next.numbers[0]);
}

// A part that nothing is done with may be another's.
TEST_F(ExportsTest, OnlyThePartThatIsUsedIsLookedAt) {
  Place a(0), b(1);
  Memory memory(0, {1, 1, 1});
  std::shared_ptr<Exports::Export> e;
  ASSERT_EQ(a.exports->Make(memory.get(), 3 * kUnit, {b.peer()}, kMs, &e), grtSuccess);
  Unmap(memory.base + 2 * kUnit, kUnit);
  memory.sizes.pop_back();
  EXPECT_TRUE(a.exports->IsStillThere(*e, memory.base, memory.base + 2 * kUnit));
  EXPECT_TRUE(a.exports->IsStillThere(*e, memory.base + kUnit, memory.base + kUnit + 1));
  EXPECT_FALSE(a.exports->IsStillThere(*e, memory.base + kUnit, memory.base + 2 * kUnit + 1));
}

TEST_F(ExportsTest, APeerThatCannotEndsItForAll) {
  Place a(0), b(1), c(2);
  Memory memory(0, {1});
  std::shared_ptr<Exports::Export> e;
  fake_.fail_access_of = 2;
  EXPECT_EQ(a.exports->Make(memory.get(), kUnit, {b.peer(), c.peer()}, kMs, &e), grtNotSupported);
  EXPECT_TRUE(Has(*a.exports, 0));
  EXPECT_EQ(fake_.MappingsOf(memory.numbers[0]), 1u);
  EXPECT_EQ(fake_.References(memory.numbers[0]), 1);
  EXPECT_EQ(
      a.exports->Make(memory.get(), kUnit, {b.peer(), {"gordian-pieces-of-nobody", -1}}, kMs, &e),
      grtNotSupported);
  EXPECT_TRUE(Has(*a.exports, 0));
  fake_.fail_access_of = -1;
  EXPECT_EQ(a.exports->Make(memory.get(), kUnit, {b.peer(), c.peer()}, kMs, &e), grtSuccess);
}

// One that maps later than it was waited for: it is not offered, and is given up all the same.
TEST_F(ExportsTest, APeerThatIsLate) {
  Place a(0), b(1);
  Memory memory(0, {1});
  std::atomic<bool> goes_on{false};
  b.before_taking = [&] {
    while (!goes_on) std::this_thread::yield();
  };
  std::shared_ptr<Exports::Export> e;
  EXPECT_EQ(a.exports->Make(memory.get(), kUnit, {b.peer()}, 50, &e), grtNotSupported);
  EXPECT_EQ(e, nullptr);
  goes_on = true;
  EXPECT_TRUE(Has(*a.exports, 0));
  EXPECT_EQ(fake_.MappingsOf(memory.numbers[0]), 1u);
  b.before_taking = nullptr;
  EXPECT_EQ(a.exports->Make(memory.get(), kUnit, {b.peer()}, kMs, &e), grtSuccess);
}

TEST_F(ExportsTest, AnotherDeviceOfTheProcessHasItAtTheOwnAddresses) {
  Place a(0), b(1);
  Memory memory(0, {1, 1});
  std::shared_ptr<Exports::Export> e;
  ASSERT_EQ(a.exports->Make(memory.get(), 2 * kUnit, {{"", 5}, {"", 6}, b.peer()}, kMs, &e),
            grtSuccess);
  const uint64_t at = reinterpret_cast<uint64_t>(a.own->base()) + e->offset();
  for (const uint64_t piece : {at, at + kUnit}) {
    for (const int device : {5, 6}) EXPECT_TRUE(fake_.MayAccess(piece, device));
    EXPECT_FALSE(fake_.MayAccess(piece, 7));
  }
  EXPECT_EQ(fake_.At(at + kUnit), memory.numbers[1]);
  EXPECT_EQ(fake_.At(b.Address(a, e->offset() + kUnit)), memory.numbers[1]);
  End(*a.exports, &e);
  EXPECT_EQ(fake_.At(at), 0);
  EXPECT_EQ(fake_.MappingsOf(memory.numbers[0]), 1u);
}

// What is used yet is kept, until it is used no more; what nobody can know of, for ever.
TEST_F(ExportsTest, EndsWhenItsUseIsOver) {
  Place a(0), b(1);
  Memory used(0, {1}), lost(0, {1});
  std::shared_ptr<Exports::Export> e, never;
  ASSERT_EQ(a.exports->Make(used.get(), kUnit, {b.peer()}, kMs, &e), grtSuccess);
  ASSERT_EQ(a.exports->Make(lost.get(), kUnit, {b.peer()}, kMs, &never), grtSuccess);
  std::atomic<int> asked{0};
  std::atomic<bool> over{false};
  a.exports->EndWhen(
      [&] {
        if (std::this_thread::get_id() == a.entered.load()) ++asked;
        return over ? Exports::Over::kYes : Exports::Over::kNotYet;
      },
      std::move(e));
  a.exports->EndWhen([] { return Exports::Over::kNever; }, std::move(never));
  while (asked < 3) std::this_thread::yield();
  EXPECT_EQ(fake_.MappingsOf(used.numbers[0]), 2u);
  over = true;
  EXPECT_TRUE(Has(*a.exports, 1));
  EXPECT_EQ(fake_.MappingsOf(used.numbers[0]), 1u);
  EXPECT_EQ(fake_.MappingsOf(lost.numbers[0]), 2u);
}

// Unmapping that takes its time, as it may beside a kernel, keeps nobody who registers.
TEST_F(ExportsTest, NobodyWaitsForAnUnmapping) {
  Place a(0), b(1);
  Memory first(0, {1}), second(0, {1});
  std::shared_ptr<Exports::Export> e, other;
  ASSERT_EQ(a.exports->Make(first.get(), kUnit, {{"", 5}}, kMs, &e), grtSuccess);
  std::atomic<bool> stands{false}, goes_on{false};
  fake_.in_unmap = [&] {
    stands = true;
    while (!goes_on) std::this_thread::yield();
  };
  e.reset();
  a.exports->Look();
  while (!stands) std::this_thread::yield();
  EXPECT_FALSE(a.exports->AwaitSettled(1));
  EXPECT_EQ(a.exports->Make(second.get(), kUnit, {{"", 5}, b.peer()}, kMs, &other), grtSuccess);
  EXPECT_NE(other->offset(), kHeapRangeBytes);  // the other's are not free yet
  goes_on = true;
  EXPECT_TRUE(Has(*a.exports, 1));
  fake_.in_unmap = nullptr;
}

// Everybody registers with everybody at once, and ends it: no order of locks or sockets that could
// hang.
TEST_F(ExportsTest, AllAtOnce) {
  constexpr int kPlaces = 3, kRounds = 40;
  std::vector<std::unique_ptr<Place>> places;
  for (int i = 0; i < kPlaces; ++i) places.push_back(std::make_unique<Place>(i));
  std::vector<std::unique_ptr<Memory>> memory;
  for (int i = 0; i < kPlaces; ++i)
    memory.push_back(std::make_unique<Memory>(i, std::vector<uint64_t>{1, 1}));
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2 * kPlaces; ++t) {
    threads.emplace_back([&, t] {
      const int own = t % kPlaces;
      std::vector<Exports::Peer> peers;
      for (int i = 0; i < kPlaces; ++i) {
        if (i != own) peers.push_back(places[static_cast<size_t>(i)]->peer());
      }
      Exports& exports = *places[static_cast<size_t>(own)]->exports;
      for (int round = 0; round < kRounds; ++round) {
        std::shared_ptr<Exports::Export> e;
        const Memory& of = *memory[static_cast<size_t>(own)];
        if (exports.Make(of.get(round % 2 == 0 ? 0 : kUnit), kUnit, peers, kMs, &e) != grtSuccess) {
          ++failed;
          continue;
        }
        for (int i = 0; i < kPlaces; ++i) {
          Place& peer = *places[static_cast<size_t>(i)];
          if (i != own && fake_.At(peer.Address(*places[static_cast<size_t>(own)], e->offset())) !=
                              fake_.At(e->begin()))
            ++failed;
        }
        e.reset();
        exports.Look();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  for (auto& place : places) EXPECT_TRUE(Has(*place->exports, 0));
  for (auto& m : memory) {
    for (const int number : m->numbers) EXPECT_EQ(fake_.References(number), 1);
  }
}

}  // namespace
}  // namespace gordian::runtime::cuda
