// Writes ring files as the shim does, for tests of the reader: the same rules of
// proto/ring/layout.h, none of the shim's code. Throws nothing; aborts when the test machine cannot
// do what it needs.
#ifndef GORDIAN_TESTS_UNIT_COLLECTOR_FAKE_SHIM_H_
#define GORDIAN_TESTS_UNIT_COLLECTOR_FAKE_SHIM_H_

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

#include "collector/process/proc_reader.h"
#include "common/clock.h"
#include "proto/ring/calls.h"
#include "proto/ring/layout.h"

namespace gordian::testing_support {

class FakeShim {
 public:
  static constexpr uint64_t kHeaderBytes = (sizeof(ring::Header) + 4095) / 4096 * 4096;
  static constexpr uint64_t kStateBytes =
      kHeaderBytes + ring::kMaxThreads * sizeof(ring::ThreadSlot) +
      ring::kMaxStreams * sizeof(ring::StreamSlot) + ring::kMaxComms * sizeof(ring::CommSlot) +
      ring::kMaxNumbers * sizeof(ring::NumberSlot);

  // Creates <dir>/<pid>.<start>.ring, or `name`, with room for `rings` rings of `slots` records.
  FakeShim(const std::string& dir, pid_t pid, uint64_t slots, uint32_t rings, std::string name = "")
      : slots_(slots), rings_(rings) {
    const auto stat = collector::ReadProcessStat(pid);
    const uint64_t start = stat ? stat->start : 1;
    name_ = name.empty() ? std::to_string(pid) + "." + std::to_string(start) + ".ring" : name;
    path_ = dir + "/" + name_;
    bytes_ = kStateBytes + slots * rings * sizeof(ring::Record);
    const std::string partial = path_ + ".tmp";
    const int fd = open(partial.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes_)) != 0) {
      Die("cannot make a ring file");
    }
    base_ = static_cast<unsigned char*>(
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
    if (base_ == MAP_FAILED) {
      Die("cannot map a ring file");
    }
    ring::Header& h = *header();
    h.abi_version = ring::kRingAbiVersion;
    h.header_bytes = sizeof(ring::Header);
    h.file_bytes = bytes_;
    h.pid = static_cast<uint32_t>(pid);
    h.process_start = start;
    h.env_rank = 3;
    h.env_world_size = 4;
    h.env_local_rank = 1;
    h.clock = {.ticks_base = 0,
               .mono_base_ns = 0,
               .real_base_ns = RealNs(),
               .ns_per_tick_q32 = 1ull << 32,
               .tsc = 0};
    h.max_threads = ring::kMaxThreads;
    h.max_streams = ring::kMaxStreams;
    h.max_comms = ring::kMaxComms;
    h.threads_offset = kHeaderBytes;
    h.streams_offset = h.threads_offset + h.max_threads * sizeof(ring::ThreadSlot);
    h.comms_offset = h.streams_offset + h.max_streams * sizeof(ring::StreamSlot);
    h.max_numbers = ring::kMaxNumbers;
    h.numbers_offset = h.comms_offset + h.max_comms * sizeof(ring::CommSlot);
    h.rings_offset = kStateBytes;
    h.runtime_connect = 1;
    std::strncpy(h.build_id, "fake 1", sizeof(h.build_id) - 1);
    h.magic = ring::kRingMagic;
    if (rename(partial.c_str(), path_.c_str()) != 0) {
      Die("cannot publish a ring file");
    }
  }
  ~FakeShim() {
    StopWatcher();
    munmap(base_, bytes_);
  }
  FakeShim(const FakeShim&) = delete;
  FakeShim& operator=(const FakeShim&) = delete;

  const std::string& path() const { return path_; }
  const std::string& name() const { return name_; }
  uint64_t bytes() const { return bytes_; }
  ring::Header* header() { return reinterpret_cast<ring::Header*>(base_); }
  ring::ThreadSlot* thread(uint32_t i) {
    return reinterpret_cast<ring::ThreadSlot*>(base_ + kHeaderBytes) + i;
  }
  ring::StreamSlot* stream(uint32_t i) {
    return reinterpret_cast<ring::StreamSlot*>(base_ + header()->streams_offset) + i;
  }
  ring::CommSlot* comm(uint32_t i) {
    return reinterpret_cast<ring::CommSlot*>(base_ + header()->comms_offset) + i;
  }

  ring::NumberSlot* numbers(uint32_t i) {
    return reinterpret_cast<ring::NumberSlot*>(base_ + header()->numbers_offset) + i;
  }
  ring::PendingQueue* queue(uint64_t offset) {
    return reinterpret_cast<ring::PendingQueue*>(base_ + offset);
  }

  // Gives slot `i` to `tid`. Slots in order.
  void AddThread(uint32_t i, pid_t tid) {
    ring::ThreadSlot& slot = *thread(i);
    if (i < rings_) {
      slot.ring_offset = header()->rings_offset + i * slots_ * sizeof(ring::Record);
      slot.ring_slots = slots_;
    }
    Store(&slot.tid, static_cast<uint32_t>(tid));
    Store(&header()->threads_used, i + 1);
  }
  // Hands the slot on, as the shim does: only when nothing is left unread.
  bool ReuseThread(uint32_t i, pid_t tid) {
    ring::ThreadSlot& slot = *thread(i);
    if (Load(&slot.ring_tail) != Load(&slot.ring_head)) {
      return false;
    }
    Store(&slot.generation, Load(&slot.generation) + 1);
    Store(&slot.tid, static_cast<uint32_t>(tid));
    return true;
  }

  // Publishes one record; false, and a loss is counted, if the ring is full. With `ignore_tail` it
  // breaks the rule and overwrites.
  bool Publish(uint32_t i, ring::Record record, bool ignore_tail = false) {
    ring::ThreadSlot& slot = *thread(i);
    const uint64_t head = slot.ring_head;
    if (!ignore_tail && head - Load(&slot.ring_tail) >= slots_) {
      Store(&slot.lost_records, slot.lost_records + 1);
      __atomic_fetch_add(&header()->lost_records, 1, __ATOMIC_RELAXED);
      return false;
    }
    record.thread = i;
    record.order = __atomic_add_fetch(&header()->order, 1, __ATOMIC_RELAXED);
    record.ticks = MonoNs();
    std::memcpy(base_ + slot.ring_offset + (head & (slots_ - 1)) * sizeof(ring::Record), &record,
                sizeof(record));
    Store(&slot.ring_head, head + 1);
    return true;
  }

  // A kPoint of cudaEventRecord whose ordinal is `n`.
  static ring::Record Point(uint64_t n) {
    ring::Record record{};
    record.kind = ring::RecordKind::kPoint;
    record.call = ring::kCall_cudaEventRecord;
    record.payload.work.kind = ring::WorkKind::kEventRecord;
    record.payload.work.stream = 1;
    record.payload.work.ordinal = n;
    return record;
  }

  // Enters a call that may block, as the state block shows it.
  void EnterCall(uint32_t i, uint16_t call, uint64_t order) {
    ring::ThreadSlot& slot = *thread(i);
    Store(&slot.seq, slot.seq + 1);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    slot.call = call;
    slot.gpu_thread = 1;
    slot.call_order = order;
    slot.since_ticks = MonoNs();
    slot.entered += 1;
    Store(&slot.seq, slot.seq + 1);
  }

  // A thread that answers rounds. `deaf`: it is there but never answers.
  void StartWatcher(bool deaf = false) {
    watcher_ = std::thread([this, deaf] {
      pthread_setname_np(pthread_self(), "gordian-watch");
      Store(&header()->watcher_tid, static_cast<uint32_t>(gettid()));
      uint32_t answered = Load(&header()->round_answer);
      while (!stop_) {
        const uint32_t request = Load(&header()->round_request);
        if (deaf || request == answered) {
          const timespec patience{.tv_sec = 0, .tv_nsec = 50'000'000};
          syscall(SYS_futex, &header()->round_request, FUTEX_WAIT, deaf ? request : answered,
                  &patience, nullptr, 0);
          continue;
        }
        answers_.fetch_add(1);
        answered = request;
        Store(&header()->round_answer, request);
      }
    });
    while (Load(&header()->watcher_tid) == 0) {
      sched_yield();
    }
  }
  void StopWatcher() {
    if (watcher_.joinable()) {
      stop_ = true;
      watcher_.join();
    }
  }
  uint32_t answers() const { return answers_; }

 private:
  template <typename T>
  static T Load(const T* field) {
    return __atomic_load_n(field, __ATOMIC_ACQUIRE);
  }
  template <typename T>
  static void Store(T* field, T value) {
    __atomic_store_n(field, value, __ATOMIC_RELEASE);
  }
  [[noreturn]] static void Die(const char* what) {
    std::perror(what);
    std::abort();
  }

  const uint64_t slots_;
  const uint32_t rings_;
  std::string name_;
  std::string path_;
  uint64_t bytes_ = 0;
  unsigned char* base_ = nullptr;
  std::thread watcher_;
  std::atomic<bool> stop_ = false;
  std::atomic<uint32_t> answers_ = 0;
};

// A folder of its own in /dev/shm (or TMPDIR), removed with all in it.
class TemporaryDir {
 public:
  TemporaryDir() {
    std::string name =
        (access("/dev/shm", W_OK) == 0 ? std::string("/dev/shm") : "/tmp") + "/gordian-test-XXXXXX";
    path_ = mkdtemp(name.data()) == nullptr ? "" : name;
    if (path_.empty()) {
      std::perror("mkdtemp");
      std::abort();
    }
  }
  ~TemporaryDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDir(const TemporaryDir&) = delete;
  TemporaryDir& operator=(const TemporaryDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace gordian::testing_support

#endif  // GORDIAN_TESTS_UNIT_COLLECTOR_FAKE_SHIM_H_
