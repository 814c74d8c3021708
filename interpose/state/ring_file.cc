#include "interpose/state/ring_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "interpose/entry/lifecycle.h"
#include "interpose/sources/stub_compute.h"
#include "interpose/state/handle_tables.h"

namespace gordian::interpose {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kFirstRingBytes = 1ull << 20;
constexpr uint32_t kFirstRings = 4;
constexpr uint64_t kLaterRingBytes = 64ull << 10;
// How much of a ring to keep free of kernels and events if the collector is too slow: a quarter,
// but at most the calls of a step or two.
constexpr uint64_t kMostKeptSlots = 1024;
constexpr uint64_t kCalibrationNs = 100000;

constexpr uint64_t RoundUp(uint64_t value) { return (value + kPage - 1) & ~(kPage - 1); }
constexpr uint64_t kThreadsOffset = RoundUp(sizeof(ring::Header));
constexpr uint64_t kStreamsOffset =
    kThreadsOffset + RoundUp(sizeof(ring::ThreadSlot) * ring::kMaxThreads);
constexpr uint64_t kCommsOffset =
    kStreamsOffset + RoundUp(sizeof(ring::StreamSlot) * ring::kMaxStreams);
constexpr uint64_t kNumbersOffset =
    kCommsOffset + RoundUp(sizeof(ring::CommSlot) * ring::kMaxComms);
constexpr uint64_t kRingsOffset =
    kNumbersOffset + RoundUp(sizeof(ring::NumberSlot) * ring::kMaxNumbers);
static_assert(kRingsOffset + kFirstRings * kFirstRingBytes < ring::kMaxFileBytes);

// The kernel's own call: glibc's fstat is a symbol of glibc 2.33.
bool Status(int fd, struct stat* status) { return syscall(SYS_fstat, fd, status) == 0; }

uint64_t ClockNs(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

// False where `text` is not a whole decimal number.
bool ParseNumber(const char* text, int64_t* value) {
  if (text == nullptr || *text == '\0') return false;
  const bool negative = *text == '-';
  if (negative) ++text;
  int64_t result = 0;
  int digits = 0;
  for (; *text >= '0' && *text <= '9' && digits < 18; ++text, ++digits) {
    result = result * 10 + (*text - '0');
  }
  if (digits == 0 || *text != '\0') return false;
  *value = negative ? -result : result;
  return true;
}

int32_t FirstNumber(const char* const* names) {
  for (; *names != nullptr; ++names) {
    int64_t value = 0;
    if (ParseNumber(getenv(*names), &value) && value >= 0 && value <= INT32_MAX) {
      return static_cast<int32_t>(value);
    }
  }
  return -1;
}

// Field 22 of /proc/self/stat; the command's name (field 2) may hold anything, brackets too.
bool ReadProcessStart(uint64_t* start) {
  const int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char text[1024];
  const ssize_t length = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (length <= 0) return false;
  text[length] = '\0';
  const char* at = strrchr(text, ')');
  if (at == nullptr) return false;
  for (int field = 2; field < 22; ++field) {
    at = strchr(at + 1, ' ');
    if (at == nullptr) return false;
  }
  *start = 0;
  for (++at; *at >= '0' && *at <= '9'; ++at)
    *start = *start * 10 + static_cast<uint64_t>(*at - '0');
  return *start != 0;
}

bool HasInvariantTsc() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
#else
  return false;
#endif
}

uint64_t ReadTsc() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return 0;
#endif
}

uint64_t TicksRatio(uint64_t nanoseconds, uint64_t ticks) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(nanoseconds) << 32) / ticks);
}

// Both clocks at one moment: the closest of a few readings, since a thread that loses its core
// between the two spoils one.
void ReadClocks(uint64_t* ticks, uint64_t* nanoseconds) {
  uint64_t best = UINT64_MAX;
  for (int i = 0; i < 4; ++i) {
    const uint64_t before = ReadTsc();
    const uint64_t now = ClockNs(CLOCK_MONOTONIC);
    const uint64_t after = ReadTsc();
    if (after - before >= best) continue;
    best = after - before;
    *ticks = before + best / 2;
    *nanoseconds = now;
  }
}

// A first ratio from 0.1 ms; the watcher makes it better as time passes (RefineClock).
void Calibrate(ring::ClockCalibration* clock) {
  clock->real_base_ns = ClockNs(CLOCK_REALTIME);
  clock->mono_base_ns = ClockNs(CLOCK_MONOTONIC);
  clock->ticks_base = clock->mono_base_ns;
  clock->ns_per_tick_q32 = uint64_t{1} << 32;
  clock->tsc = 0;
  if (!HasInvariantTsc()) return;  // slow in a virtual machine, where the instruction traps
  uint64_t base = 0, ticks = 0, base_ns = 0, now = 0;
  ReadClocks(&base, &base_ns);
  do {
    ReadClocks(&ticks, &now);
  } while (now - base_ns < kCalibrationNs);
  if (ticks <= base) return;
  clock->real_base_ns += base_ns - clock->mono_base_ns;
  clock->mono_base_ns = base_ns;
  clock->ticks_base = base;
  clock->ns_per_tick_q32 = TicksRatio(now - base_ns, ticks - base);
  clock->tsc = 1;
}

void FillHeader(Process& process, uint64_t start) {
  static constexpr const char* kRank[] = {"RANK",
                                          "OMPI_COMM_WORLD_RANK",
                                          "PMIX_RANK",
                                          "PMI_RANK",
                                          "MV2_COMM_WORLD_RANK",
                                          "JSM_NAMESPACE_RANK",
                                          "SLURM_PROCID",
                                          nullptr};
  static constexpr const char* kWorld[] = {
      "WORLD_SIZE",         "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
      "JSM_NAMESPACE_SIZE", "SLURM_NTASKS",         nullptr};
  static constexpr const char* kLocal[] = {"LOCAL_RANK",
                                           "OMPI_COMM_WORLD_LOCAL_RANK",
                                           "MPI_LOCALRANKID",
                                           "MV2_COMM_WORLD_LOCAL_RANK",
                                           "JSM_NAMESPACE_LOCAL_RANK",
                                           "SLURM_LOCALID",
                                           nullptr};
  ring::Header& header = *process.header;
  header.abi_version = ring::kRingAbiVersion;
  header.header_bytes = sizeof(ring::Header);
  header.file_bytes = ring::kMaxFileBytes;
  header.pid = static_cast<uint32_t>(process.pid);
  header.process_start = start;
  header.env_rank = FirstNumber(kRank);
  header.env_world_size = FirstNumber(kWorld);
  header.env_local_rank = FirstNumber(kLocal);
  Calibrate(&header.clock);
  header.threads_offset = kThreadsOffset;
  header.max_threads = ring::kMaxThreads;
  header.streams_offset = kStreamsOffset;
  header.max_streams = ring::kMaxStreams;
  header.comms_offset = kCommsOffset;
  header.max_comms = ring::kMaxComms;
  header.numbers_offset = kNumbersOffset;
  header.max_numbers = ring::kMaxNumbers;
  header.rings_offset = kRingsOffset;
  strncpy(header.build_id, "gordian " GORDIAN_VERSION, sizeof(header.build_id) - 1);
  // NCCL connects at first use only with cuMem, and without it at init.
  const auto is_off = [](const char* name) {
    int64_t value = 1;
    return ParseNumber(getenv(name), &value) && value == 0;
  };
  header.runtime_connect = !is_off("NCCL_RUNTIME_CONNECT") && !is_off("NCCL_CUMEM_ENABLE") ? 1 : 0;
  header.magic = ring::kRingMagic;
}

// posix_fallocate, never a hole: a store to a hole of a full file system is a SIGBUS in the job.
bool Reserve(int fd, uint64_t offset, uint64_t bytes) {
  int result = 0;
  do {
    result = posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (result == EINTR);
  return result == 0;
}

bool FileSizeAllowed() {
  rlimit limit;  // growing a file beyond it is a SIGXFSZ in the job
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= ring::kMaxFileBytes;
}

// An exec keeps pid and start time: a file of that name may be the earlier image's, which still has
// a reader. Then the name gets a number.
bool Publish(Process& process, int folder, const char* directory, const char* temporary,
             const char* stem) {
  for (int attempt = 0; attempt < 16; ++attempt) {
    char path[sizeof(process.path)];
    const int length =
        attempt == 0 ? snprintf(path, sizeof(path), "%s/%s.ring", directory, stem)
                     : snprintf(path, sizeof(path), "%s/%s.%d.ring", directory, stem, attempt);
    if (length <= 0 || length >= static_cast<int>(sizeof(path))) return false;
    const char* const name = path + strlen(directory) + 1;
    constexpr unsigned kNoReplace = 1;  // RENAME_NOREPLACE; glibc's wrapper is of 2.28
    if (syscall(SYS_renameat2, folder, temporary, folder, name, kNoReplace) == 0) {
      memcpy(process.path, path, static_cast<size_t>(length) + 1);
      return true;
    }
    if (errno != EEXIST) return false;
  }
  return false;
}

Process* MapPrivateState() {
  void* memory = mmap(nullptr, sizeof(Process), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<Process*>(memory);
}

// `folder`: the open directory, in which all names are looked up.
bool BuildFileIn(Process& process, int folder, const char* directory) {
  uint64_t start = 0;
  if (!FileSizeAllowed() || !ReadProcessStart(&start)) return false;
  char stem[64];
  char temporary[80];
  snprintf(stem, sizeof(stem), "%d.%llu", process.pid, static_cast<unsigned long long>(start));
  snprintf(temporary, sizeof(temporary), "%s.ring.tmp", stem);
  unlinkat(folder, temporary, 0);  // of an earlier image that died at this very point
  const int fd =
      openat(folder, temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return false;
  struct stat status;
  void* base = MAP_FAILED;
  if (Reserve(fd, 0, kRingsOffset) && ftruncate(fd, ring::kMaxFileBytes) == 0 &&
      Status(fd, &status)) {
    base = mmap(nullptr, ring::kMaxFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  close(fd);
  if (base == MAP_FAILED) {
    unlinkat(folder, temporary, 0);
    return false;
  }
  process.base = static_cast<char*>(base);
  process.header = reinterpret_cast<ring::Header*>(process.base);
  process.threads = reinterpret_cast<ring::ThreadSlot*>(process.base + kThreadsOffset);
  process.streams = reinterpret_cast<ring::StreamSlot*>(process.base + kStreamsOffset);
  process.comms = reinterpret_cast<ring::CommSlot*>(process.base + kCommsOffset);
  process.numbers = reinterpret_cast<ring::NumberSlot*>(process.base + kNumbersOffset);
  process.file_device = status.st_dev;
  process.file_inode = status.st_ino;
  process.next_ring_offset = kRingsOffset;
  FillHeader(process, start);
  if (!Publish(process, folder, directory, temporary, stem)) {
    munmap(base, ring::kMaxFileBytes);
    unlinkat(folder, temporary, 0);
    return false;
  }
  return true;
}

// If a link has taken the directory's place, there is no file.
bool BuildFile(Process& process, const char* directory) {
  const int folder = open(directory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return false;
  const bool built = BuildFileIn(process, folder, directory);
  close(folder);
  return built;
}

// Opens the file anew for every ring: a program that closes all descriptors would close one that
// the shim keeps, and its number could then name a file of the program.
bool ReserveRing(const Process& process, uint64_t offset, uint64_t bytes) {
  const int fd = open(process.path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  struct stat status;
  const bool ours = Status(fd, &status) && status.st_dev == process.file_device &&
                    status.st_ino == process.file_inode;
  const bool reserved = ours && Reserve(fd, offset, bytes);
  close(fd);
  return reserved;
}

}  // namespace

Process* CreateProcess(uint64_t epoch) {
  const char* directory = getenv("GORDIAN_RING_DIR");
  if (directory == nullptr || directory[0] == '\0') return nullptr;
  Process* process = MapPrivateState();
  if (process == nullptr) return nullptr;
  process->epoch = epoch;
  process->pid = static_cast<int32_t>(getpid());
  if (!BuildFile(*process, directory)) {
    munmap(process, sizeof(Process));
    return nullptr;
  }
  process->tsc = process->header->clock.tsc != 0;
  process->non_kernel_mark.store(1, std::memory_order_relaxed);
  int64_t value = 0;
  process->forced_blocking =
      ParseNumber(getenv("NCCL_COMM_BLOCKING"), &value) ? static_cast<int32_t>(value != 0) : -1;
  if (ParseNumber(getenv("GORDIAN_RING_SLOTS"), &value)) {
    if (value >= 2) {
      process->forced_ring_slots = uint64_t{1}
                                   << (63 - __builtin_clzll(static_cast<uint64_t>(value)));
    }
    process->no_rings = value == 0;
  }
  const bool markers_off = ParseNumber(getenv("GORDIAN_MARKERS"), &value) && value == 0;
  process->markers_on.store(markers_off ? 0 : 1, std::memory_order_relaxed);
  const bool in_graphs = ParseNumber(getenv("GORDIAN_GRAPH_MARKERS"), &value) && value != 0;
  process->graph_markers_on.store(in_graphs ? 1 : 0, std::memory_order_relaxed);
  ReadStubSettings();
  return process;
}

RingSpace TakeRingSpace(Process& process) {
  if (process.no_rings) return {0, 0};
  uint64_t bytes = process.rings_handed_out < kFirstRings ? kFirstRingBytes : kLaterRingBytes;
  if (process.forced_ring_slots != 0) bytes = process.forced_ring_slots * sizeof(ring::Record);
  const RingSpace space = {process.next_ring_offset, bytes};
  if (RoundUp(bytes) > ring::kMaxFileBytes - space.offset) return {0, 0};
  process.next_ring_offset += RoundUp(bytes);
  ++process.rings_handed_out;
  return space;
}

uint64_t TakeStateSpace(Process& process, uint64_t bytes) {
  if (!process.thread_lock.Acquire()) return 0;
  const uint64_t offset = process.next_ring_offset;
  const bool room = RoundUp(bytes) <= ring::kMaxFileBytes - offset;
  if (room) process.next_ring_offset += RoundUp(bytes);
  process.thread_lock.Release();
  const ErrnoKeeper keep_errno;
  return room && ReserveRing(process, offset, RoundUp(bytes)) ? offset : 0;
}

void HandOutRing(Process& process, ThreadContext& thread, RingSpace space) {
  const auto [offset, bytes] = space;
  const uint64_t reserved = RoundUp(bytes);
  if (!ReserveRing(process, offset, reserved)) return;
#if defined(MADV_POPULATE_WRITE)
  // Saves the job a page fault every 64 records; where the kernel is older, they come one by one.
  madvise(process.base + offset, reserved, MADV_POPULATE_WRITE);
#endif
  thread.records = reinterpret_cast<ring::Record*>(process.base + offset);
  Put(thread.ring_slots, bytes / sizeof(ring::Record));
  const uint64_t kept = thread.ring_slots / 4;
  thread.work_slots = thread.ring_slots - (kept < kMostKeptSlots ? kept : kMostKeptSlots);
  Put(thread.slot->ring_slots, thread.ring_slots);
  // litmus: ring.place
  Shared(thread.slot->ring_offset).store(offset, std::memory_order_release);
}

void RefineClock(Process& process) {
  ring::ClockCalibration& clock = process.header->clock;
  if (!process.tsc) return;
  uint64_t ticks = 0, now = 0;
  ReadClocks(&ticks, &now);
  if (ticks <= clock.ticks_base || now <= clock.mono_base_ns) return;
  Put(clock.ns_per_tick_q32, TicksRatio(now - clock.mono_base_ns, ticks - clock.ticks_base));
}

}  // namespace gordian::interpose
