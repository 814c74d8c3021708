#include "collector/rings/ring_file.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include "collector/rings/bus_guard.h"

namespace gordian::collector {
namespace {

// A writer holds its sequence lock for a few stores. One that was descheduled there holds it
// longer; then the caller treats the thread as moving, which is always right.
constexpr int kSequenceTries = 100;

template <typename T>
T Load(const T* field) {
  // litmus: collector.load
  return __atomic_load_n(field, __ATOMIC_RELAXED);
}

template <typename T>
T LoadAcquire(const T* field) {
  // litmus: collector.load_acquire
  return __atomic_load_n(field, __ATOMIC_ACQUIRE);
}

// Copies a slot by atomic 8-byte loads, so that no field of at most 8 bytes is torn. The loads have
// no order: what needs one loads a word of it before, or fences behind.
template <typename T>
void LoadWords(const unsigned char* from, T* to) {
  static_assert(sizeof(T) % 8 == 0 && std::is_trivially_copyable_v<T>);
  uint64_t words[sizeof(T) / 8];
  const auto* source = reinterpret_cast<const uint64_t*>(from);
  for (size_t i = 0; i < sizeof(T) / 8; ++i) {
    // litmus: collector.words
    words[i] = Load(source + i);
  }
  std::memcpy(to, words, sizeof(T));
}

// Copies a slot whose owner's id is its stamp: the writer clears the id, fences, writes, and stores
// the next owner's. No id comes twice. A slot that keeps changing its owner counts as free: each is
// over before the next one comes. What is read later is of the time of the copy, or later.
template <typename T>
void LoadOwned(const unsigned char* from, uint32_t T::*id, T* to) {
  const T* const slot = reinterpret_cast<const T*>(from);
  for (int i = 0; i < kSequenceTries; ++i) {
    // litmus: owned.before
    const uint32_t before = LoadAcquire(&(slot->*id));
    LoadWords(from, to);
    // litmus: owned.behind
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (Load(&(slot->*id)) == before) {
      to->*id = before;
      return;
    }
  }
  *to = {};
}

// Whether an array of `count` slots of `size` bytes at `offset` lies within `bytes`.
bool Fits(uint64_t offset, uint64_t count, uint64_t size, uint64_t bytes) {
  return offset % 8 == 0 && offset <= bytes && count <= (bytes - offset) / size;
}

// Whether `now` can be what has become of `before`: what never changes is the same, and no count is
// beyond reach.
bool IsOfOneFile(const ring::Header& before, const ring::Header& now) {
  if (now.magic != before.magic || now.abi_version != before.abi_version ||
      now.header_bytes != before.header_bytes || now.file_bytes != before.file_bytes ||
      now.pid != before.pid || now.process_start != before.process_start ||
      now.env_rank != before.env_rank || now.env_world_size != before.env_world_size ||
      now.threads_offset != before.threads_offset || now.max_threads != before.max_threads ||
      now.streams_offset != before.streams_offset || now.max_streams != before.max_streams ||
      now.comms_offset != before.comms_offset || now.max_comms != before.max_comms ||
      now.numbers_offset != before.numbers_offset || now.max_numbers != before.max_numbers ||
      now.rings_offset != before.rings_offset) {
    return false;
  }
  for (const uint64_t count :
       {now.order, now.lost_records, now.lost_streams, now.lost_comms, now.lost_markers,
        now.lost_calls, now.lost_numbers, now.lost_work, now.skipped_kernels}) {
    if (count > kMostCounted) return false;
  }
  return true;
}

}  // namespace

StatusOr<std::unique_ptr<RingFile>> RingFile::Open(const std::string& path) {
  // NOFOLLOW, NONBLOCK: a process that can write into the folder must not make the collector open
  // another file, or wait.
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) {
    return Status::FromErrno(errno, "cannot open the ring file " + path);
  }
  return Adopt(fd, path);
}

StatusOr<std::unique_ptr<RingFile>> RingFile::Adopt(int fd, const std::string& path) {
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return Status::DataLoss(path + " is not a ring file: not a regular file");
  }
  const auto bytes = static_cast<uint64_t>(info.st_size);
  if (info.st_size < static_cast<off_t>(sizeof(ring::Header)) || bytes > ring::kMaxFileBytes) {
    close(fd);
    return Status::DataLoss(path + " is not a ring file: it has " + std::to_string(bytes) +
                            " bytes");
  }
  void* const base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    const int error = errno;
    close(fd);
    return Status::FromErrno(error, "cannot map the ring file " + path);
  }
  InstallBusGuard();
  std::unique_ptr<RingFile> file(new RingFile(fd, path, bytes, base));
  GORDIAN_RETURN_IF_ERROR(file->CheckHeader());
  return file;
}

RingFile::RingFile(int fd, std::string path, uint64_t bytes, void* base)
    : fd_(fd), path_(std::move(path)), bytes_(bytes), base_(static_cast<unsigned char*>(base)) {}

RingFile::~RingFile() {
  munmap(base_, bytes_);
  close(fd_);
}

template <typename Access>
bool RingFile::Guarded(Access&& access) {
  if (broken_) {
    return false;
  }
  using Callable = std::remove_reference_t<Access>;
  const bool fine = RunGuarded(
      base_, bytes_, [](void* context) { (*static_cast<Callable*>(context))(); }, &access);
  broken_ = !fine;
  return fine;
}

Status RingFile::CheckHeader() {
  if (!Guarded([&] { LoadWords(base_, &header_); })) {
    return Status::DataLoss(path_ + " was truncated while it was opened");
  }
  const ring::Header& h = header_;
  const auto bad = [&](const std::string& why) {
    return Status::DataLoss(path_ + " is not a usable ring file: " + why);
  };
  if (h.magic != ring::kRingMagic) {
    return bad("wrong magic number");
  }
  if (h.abi_version != ring::kRingAbiVersion) {
    const std::string text = path_ + " was written by a shim of ring version " +
                             std::to_string(h.abi_version) + "; this collector reads version " +
                             std::to_string(ring::kRingAbiVersion);
    return h.abi_version > ring::kRingAbiVersion ? Status::NewerVersion(text)
                                                 : Status::DataLoss(text);
  }
  if (h.header_bytes < sizeof(ring::Header)) {
    return bad("header of " + std::to_string(h.header_bytes) + " bytes");
  }
  if (h.file_bytes != bytes_) {
    return bad("it says " + std::to_string(h.file_bytes) + " bytes but has " +
               std::to_string(bytes_));
  }
  if (h.max_threads > ring::kMaxThreads || h.max_streams > ring::kMaxStreams ||
      h.max_comms > ring::kMaxComms) {
    return bad("more slots than this version knows");
  }
  if (h.threads_offset < sizeof(ring::Header) || h.streams_offset < sizeof(ring::Header) ||
      h.comms_offset < sizeof(ring::Header) ||
      !Fits(h.threads_offset, h.max_threads, sizeof(ring::ThreadSlot), bytes_) ||
      !Fits(h.streams_offset, h.max_streams, sizeof(ring::StreamSlot), bytes_) ||
      !Fits(h.comms_offset, h.max_comms, sizeof(ring::CommSlot), bytes_) ||
      h.rings_offset < sizeof(ring::Header) || h.rings_offset > bytes_) {
    return bad("a part lies outside of the file");
  }
  if (h.max_numbers > ring::kMaxNumbers ||
      (h.max_numbers > 0 &&
       (h.numbers_offset < sizeof(ring::Header) ||
        !Fits(h.numbers_offset, h.max_numbers, sizeof(ring::NumberSlot), bytes_)))) {
    return bad("the numbers lie outside of the file");
  }
  if (h.pid == 0 || h.pid > static_cast<uint32_t>(INT_MAX)) {
    return bad("pid " + std::to_string(h.pid));
  }
  round_request_ = h.round_request;
  return Status::Ok();
}

bool RingFile::ReadHeader(ring::Header* out) {
  auto* const header = reinterpret_cast<ring::Header*>(base_);
  const bool read = !damaged_ && Guarded([&] {
    // First: what the watcher writes before it answers belongs to the answer.
    // litmus: round.read
    const uint32_t answer = LoadAcquire(&header->round_answer);
    LoadWords(base_, out);
    out->round_answer = answer;
    // The slots that the header counts are read after it.
    // litmus: header.behind
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
  });
  if (read) damaged_ = !IsOfOneFile(header_, *out);
  if (!read || damaged_) {
    *out = {};  // no caller counts by what another process wrote there
    return false;
  }
  out->threads_used = std::min(out->threads_used, header_.max_threads);
  out->streams_used = std::min(out->streams_used, header_.max_streams);
  out->comms_used = std::min(out->comms_used, header_.max_comms);
  out->numbers_used = std::min(out->numbers_used, header_.max_numbers);
  return true;
}

bool RingFile::ReadThread(uint32_t index, ring::ThreadSlot* out, bool* consistent) {
  *consistent = false;
  if (index >= header_.max_threads) {
    return false;
  }
  unsigned char* const at = base_ + header_.threads_offset + index * sizeof(ring::ThreadSlot);
  auto* const slot = reinterpret_cast<ring::ThreadSlot*>(at);
  return Guarded([&] {
    // Before the call fields: a record published after this shows that the thread moved.
    // litmus: thread.head
    const uint64_t head = LoadAcquire(&slot->ring_head);
    for (int i = 0; i < kSequenceTries; ++i) {
      // litmus: thread.before
      const uint32_t before = LoadAcquire(&slot->seq);
      // What is polled is outside of the lock, and stored behind how often and since when.
      // litmus: thread.polled
      const uint64_t polled = LoadAcquire(&slot->poll_object);
      LoadWords(at, out);
      // litmus: thread.behind
      __atomic_thread_fence(__ATOMIC_ACQUIRE);
      const uint32_t after = Load(&slot->seq);
      if (before == after && before % 2 == 0 && out->poll_object == polled) {
        *consistent = true;
        break;
      }
    }
    out->ring_head = head;
  });
}

bool RingFile::ReadStream(uint32_t index, ring::StreamSlot* out) {
  return index < header_.max_streams && Guarded([&] {
           LoadOwned(base_ + header_.streams_offset + index * sizeof(ring::StreamSlot),
                     &ring::StreamSlot::stream, out);
         });
}

bool RingFile::ReadComm(uint32_t index, ring::CommSlot* out) {
  return index < header_.max_comms && Guarded([&] {
           LoadOwned(base_ + header_.comms_offset + index * sizeof(ring::CommSlot),
                     &ring::CommSlot::comm, out);
         });
}

bool RingFile::ReadNumbers(uint32_t index, ring::NumberSlot* out, bool* consistent) {
  *consistent = false;
  if (index >= header_.max_numbers) {
    return false;
  }
  unsigned char* const at = base_ + header_.numbers_offset + index * sizeof(ring::NumberSlot);
  auto* const slot = reinterpret_cast<ring::NumberSlot*>(at);
  return Guarded([&] {
    for (int i = 0; i < kSequenceTries && !*consistent; ++i) {
      // litmus: numbers.before
      const uint32_t before = LoadAcquire(&slot->seq);
      LoadWords(at, out);
      // litmus: numbers.behind
      __atomic_thread_fence(__ATOMIC_ACQUIRE);
      *consistent = before == Load(&slot->seq) && before % 2 == 0;
    }
  });
}

bool RingFile::ReadPending(uint64_t offset, Pending* out) {
  *out = Pending();
  if (offset < header_.rings_offset || !Fits(offset, 1, sizeof(ring::PendingQueue), bytes_)) {
    return true;  // nonsense: nothing is known of it
  }
  auto* const queue = reinterpret_cast<ring::PendingQueue*>(base_ + offset);
  return Guarded([&] {
    // The end first: what is reclaimed meanwhile is done, what comes later was called later.
    // litmus: pending.read_next
    const uint64_t next = LoadAcquire(&queue->next);
    // litmus: pending.read_first
    const uint64_t first = LoadAcquire(&queue->first);
    if (first > next) {
      out->whole = true;  // all of it was reclaimed since
    } else if (next - first <= ring::kPendingSlots) {
      out->whole = true;
      for (uint64_t place = first; place < next; ++place) {
        auto* const slot = &queue->ring[place % ring::kPendingSlots];
        ring::PendingOperation copy;
        // litmus: pending.before
        const uint64_t before = LoadAcquire(&slot->stamp);
        LoadWords(reinterpret_cast<const unsigned char*>(slot), &copy);
        // litmus: pending.behind
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (before == place + 1 && Load(&slot->stamp) == before) {
          out->operations.push_back(copy);
        } else if (LoadAcquire(&queue->first) <= place) {
          out->whole = false;  // not reclaimed, and not readable
        }
      }
    }
    // Acquired: the caller looks next whether the queue is still the stream's.
    // litmus: pending.gap
    out->gap_last = LoadAcquire(&queue->gap_last);
  });
}

bool RingFile::ReadStreams(uint32_t used, std::vector<ring::StreamSlot>* out) {
  out->clear();
  for (uint32_t i = 0; i < std::min(used, header_.max_streams); ++i) {
    ring::StreamSlot slot;
    if (!ReadStream(i, &slot)) {
      return false;
    }
    damaged_ |= std::max({slot.enqueued, slot.head, slot.done}) > kMostCounted;
    // The watcher makes the head of `done`. One that goes further is of the stream before: it was
    // stored as the slot changed its owner.
    slot.head = std::min(slot.head, slot.done + 1);
    if (slot.stream != ring::kNoId) {
      out->push_back(slot);
    }
  }
  return true;
}

bool RingFile::ReadComms(uint32_t used, std::vector<ring::CommSlot>* out) {
  out->clear();
  for (uint32_t i = 0; i < std::min(used, header_.max_comms); ++i) {
    ring::CommSlot slot;
    if (!ReadComm(i, &slot)) {
      return false;
    }
    if (slot.comm != ring::kNoId) {
      out->push_back(slot);
    }
  }
  return true;
}

bool RingFile::ReadPosition(uint32_t index, RingPosition* out) {
  if (index >= header_.max_threads) {
    return false;
  }
  auto* const slot = reinterpret_cast<ring::ThreadSlot*>(base_ + header_.threads_offset +
                                                         index * sizeof(ring::ThreadSlot));
  return Guarded([&] {
    // Head first: while it is ahead of the tail the slot is not handed to another thread, so the
    // generation read after it is the one that published up to it.
    // litmus: ring.position
    out->head = LoadAcquire(&slot->ring_head);
    out->tid = Load(&slot->tid);
    out->generation = Load(&slot->generation);
    out->offset = Load(&slot->ring_offset);
    out->slots = Load(&slot->ring_slots);
    out->lost = Load(&slot->lost_records);
  });
}

uint64_t RingFile::NcclCalls() {
  ring::Header header;
  uint64_t sum = 0;
  if (!ReadHeader(&header)) {
    return 0;
  }
  for (uint32_t i = 0; i < header.threads_used; ++i) {
    auto* const slot = reinterpret_cast<ring::ThreadSlot*>(base_ + header_.threads_offset +
                                                           i * sizeof(ring::ThreadSlot));
    uint64_t calls = 0;
    // litmus: calls.read
    if (Guarded([&] { calls = LoadAcquire(&slot->nccl_calls); })) {
      damaged_ |= calls > kMostCounted;
      sum += damaged_ ? 0 : calls;
    }
  }
  return sum;
}

bool RingFile::ValidRing(uint64_t offset, uint64_t slots) const {
  return slots != 0 && (slots & (slots - 1)) == 0 && offset >= header_.rings_offset &&
         Fits(offset, slots, sizeof(ring::Record), bytes_);
}

bool RingFile::ReadRecords(uint64_t offset, uint64_t slots, uint64_t first,
                           std::span<ring::Record> out) {
  if (!ValidRing(offset, slots) || out.size() > slots) {
    return false;
  }
  const unsigned char* const ring = base_ + offset;
  return Guarded([&] {
    const uint64_t begin = first & (slots - 1);
    const uint64_t before_wrap = std::min<uint64_t>(out.size(), slots - begin);
    // litmus: ring.copy
    std::memcpy(out.data(), ring + begin * sizeof(ring::Record),
                before_wrap * sizeof(ring::Record));
    std::memcpy(out.data() + before_wrap, ring, (out.size() - before_wrap) * sizeof(ring::Record));
  });
}

bool RingFile::StoreTail(uint32_t index, uint64_t tail) {
  if (index >= header_.max_threads) {
    return false;
  }
  auto* const slot = reinterpret_cast<ring::ThreadSlot*>(base_ + header_.threads_offset +
                                                         index * sizeof(ring::ThreadSlot));
  return Guarded([&] {
    // litmus: ring.consumed
    __atomic_store_n(&slot->ring_tail, tail, __ATOMIC_RELEASE);
  });
}

bool RingFile::RaiseRound(uint32_t* request) {
  auto* const header = reinterpret_cast<ring::Header*>(base_);
  *request = ++round_request_;
  if (!Guarded([&] {
        // litmus: round.raise
        __atomic_store_n(&header->round_request, round_request_, __ATOMIC_RELEASE);
      })) {
    return false;
  }
  // The kernel looks at the page itself; on one that is gone it says EFAULT and nothing happens.
  syscall(SYS_futex, &header->round_request, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  return true;
}

}  // namespace gordian::collector
