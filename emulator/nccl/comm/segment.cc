#include "emulator/nccl/comm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <thread>

#include "emulator/engine/engine_api.h"
#include "emulator/engine/process/peer_process.h"
#include "emulator/nccl/api/error.h"
#include "emulator/nccl/comm/futex.h"
#include "emulator/nccl/comm/stale_files.h"

namespace gordian::emu::nccl {
namespace {

std::string PathOf(const CommKey& key) {
  // Two independent 64-bit FNV-1a hashes; the file holds the whole key for comparison.
  uint64_t a = 0xcbf29ce484222325, b = 0x84222325cbf29ce4;
  for (uint8_t byte : key) {
    a = (a ^ byte) * 0x100000001b3;
    b = (b ^ (byte + 0x9eu)) * 0x100000001b3;
    b ^= b >> 29;
  }
  char path[64];
  std::snprintf(path, sizeof(path), "%s%016lx%016lx", kRendezvousPrefix, a, b);
  return path;
}

// A file without a name, its header complete. Negative on failure.
int MakeFile(const CommKey& key, int nranks) {
  int fd = open(kRendezvousFolder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) return -1;
  Layout layout(nranks);
  if (ftruncate(fd, static_cast<off_t>(layout.bytes)) != 0) {
    close(fd);
    return -1;
  }
  void* page = mmap(nullptr, sizeof(Header), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) {
    close(fd);
    return -1;
  }
  auto* header = static_cast<Header*>(page);
  header->magic = kSegmentMagic;
  header->version = kSegmentVersion;
  header->nranks = nranks;
  header->key = key;
  header->pid_namespace = PidNamespace();
  header->creator_pid = getpid();
  header->creator_start_time = StartTimeOf(getpid());
  munmap(page, sizeof(Header));
  return fd;
}

// Opens the rendezvous of `key`, or makes it if there is none. Negative on failure.
int OpenOrMake(const std::string& path, const CommKey& key, int nranks) {
  if (nranks == 1) return MakeFile(key, nranks);
  for (;;) {
    int fd = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 || errno != ENOENT) return fd;
    fd = MakeFile(key, nranks);
    if (fd < 0) return -1;
    char self[64];
    std::snprintf(self, sizeof(self), "/proc/thread-self/fd/%d", fd);
    if (linkat(AT_FDCWD, self, AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0) return fd;
    int error = errno;
    close(fd);
    if (error != EEXIST) return -1;  // else another member was faster: open its file
  }
}

// The root is gone: NCCL tries to connect to it 34 times, after pauses of 0.1 s, 0.2 s, and so on.
ncclResult_t NoRootListens(const std::atomic<bool>& cancelled) {
  constexpr int kTries = 34;
  constexpr auto kPause = std::chrono::milliseconds(100);
  for (int pauses = kTries * (kTries + 1) / 2; pauses > 0; --pauses) {
    if (cancelled.load()) return Fail(ncclInternalError, "aborted while connecting to the root");
    std::this_thread::sleep_for(kPause);
  }
  return Fail(ncclRemoteError, "the root of this id does not listen any more");
}

// The ids of the communicators that this process has made. NCCL's root serves an id once.
class ServedIds {
 public:
  void Add(const CommKey& key) {
    const std::lock_guard lock(mutex_);
    keys_.insert(key);
  }
  bool Contain(const CommKey& key) const {
    const std::lock_guard lock(mutex_);
    return keys_.contains(key);
  }

 private:
  mutable std::mutex mutex_;
  std::set<CommKey> keys_;
};
ServedIds& Served() {
  static ServedIds* const served = new ServedIds;
  return *served;
}

}  // namespace

Segment::Segment(int fd, int nranks) : nranks_(nranks), layout_(nranks) {
  struct stat st = {};
  // A short file would fault later; the header matches, so only a foreign file can be short.
  if (fstat(fd, &st) == 0 && static_cast<uint64_t>(st.st_size) >= layout_.bytes) {
    void* base =
        mmap(nullptr, layout_.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base != MAP_FAILED) base_ = static_cast<std::byte*>(base);
  }
  close(fd);
}

Segment::~Segment() {
  if (base_ != nullptr) munmap(base_, layout_.bytes);
}

bool Segment::Claim(int rank, int physical_device) {
  Member& me = member(rank);
  uint32_t nobody = 0;
  if (!me.claimed.compare_exchange_strong(nobody, 1)) return false;
  struct stat st = {};
  me.doorbell_fd = gordianEmuEngine(kEngineApiVersion)->DoorbellFd();
  me.doorbell_inode = fstat(me.doorbell_fd, &st) == 0 ? st.st_ino : 0;
  me.arena_fd = Arena::Instance().fd();
  me.arena_inode = Arena::Instance().inode();
  me.physical_device = physical_device;
  me.start_time = StartTimeOf(getpid());
  me.pid = getpid();
  me.claimed.store(2, std::memory_order_release);
  return true;
}

// A null entry means that the process died in between: `attached` then never becomes complete, and
// the others wait, as for any dead member.
void Segment::Attach() {
  processes_.resize(nranks_);
  bool all = true;
  for (int r = 0; r < nranks_; ++r) {
    processes_[r] = PeerProcess::Attach(member(r));
    all = all && processes_[r] != nullptr;
  }
  if (all) header()->attached.fetch_add(1);
  NotifyHosts();
}

ncclResult_t Segment::Join(const CommKey& key, int nranks, int rank, int physical_device,
                           const std::atomic<bool>& cancelled,
                           const std::function<void(std::shared_ptr<Segment>)>& mapped) {
  if (Arena::Instance().fd() < 0) return Fail(ncclSystemError, "no memory file for staging");
  if (nranks > 1) SweepStaleFiles(/*leaving=*/false);
  if (nranks > 1 && Served().Contain(key)) return NoRootListens(cancelled);
  std::string path = PathOf(key);
  int fd = OpenOrMake(path, key, nranks);
  if (fd < 0) {
    return Fail(ncclSystemError, "cannot open %s: %s", path.c_str(), std::strerror(errno));
  }
  Header seen = {};
  bool readable = pread(fd, &seen, sizeof(seen), 0) == static_cast<ssize_t>(sizeof(seen)) &&
                  seen.magic == kSegmentMagic && seen.version == kSegmentVersion && seen.key == key;
  if (!readable) {
    close(fd);
    return Fail(ncclSystemError, "%s is not a rendezvous of this version", path.c_str());
  }
  std::shared_ptr<Segment> segment(new Segment(fd, seen.nranks));
  if (segment->base_ == nullptr) return Fail(ncclSystemError, "cannot map %s", path.c_str());
  mapped(segment);
  Header* header = segment->header();
  if (header->contradicted.load() != 0) return NoRootListens(cancelled);
  if (seen.nranks != nranks || !segment->Claim(rank, physical_device)) {
    header->contradicted.store(1);
    segment->WaitHosts(
        "init", [] { return false; }, cancelled, [] { return std::vector<int>(); });
    return Fail(ncclInternalError, "aborted while waiting for the root");
  }
  auto n = static_cast<uint32_t>(nranks);
  if (header->joined.fetch_add(1) + 1 == n) {
    if (nranks > 1) unlink(path.c_str());
  } else {
    NoteUnfinishedJoin();
  }
  segment->NotifyHosts();
  auto joined = [&](int r) { return segment->member(r).claimed.load() == 2; };
  if (!segment->WaitHosts(
          "init", [&] { return header->joined.load() >= n; }, cancelled,
          [&] { return segment->Lacking(joined); })) {
    return Fail(ncclInternalError, "aborted while waiting for the other ranks");
  }
  // No member continues before all have opened each other's memory: a member may end at once.
  segment->Attach();
  if (!segment->WaitHosts(
          "init", [&] { return header->attached.load() >= n; }, cancelled,
          [] { return std::vector<int>(); })) {
    return Fail(ncclInternalError, "aborted while waiting for the other ranks");
  }
  for (int a = 0; a < nranks; ++a) {
    for (int b = a + 1; b < nranks; ++b) {
      if (segment->member(a).physical_device != segment->member(b).physical_device) continue;
      return Fail(ncclInvalidUsage,
                  "Duplicate GPU detected : rank %d and rank %d both on CUDA device %d", a, b,
                  segment->member(a).physical_device);
    }
  }
  Served().Add(key);
  return ncclSuccess;
}

void Segment::RingOthers(int self) {
  for (int r = 0; r < nranks_; ++r) {
    if (r == self) continue;
    bool rung = false;
    for (int earlier = 0; earlier < r && !rung; ++earlier) {
      rung = earlier != self && processes_[earlier] == processes_[r];
    }
    if (!rung) processes_[r]->Ring();
  }
}

void Segment::NotifyHosts() {
  FutexBump(&header()->host_event);
  gordianEmuEngine(kEngineApiVersion)->NoteActivity();
}

void Segment::SetLabel(std::string label) {
  std::lock_guard lock(label_mutex_);
  label_ = std::move(label);
}

std::string Segment::label() const {
  std::lock_guard lock(label_mutex_);
  return label_;
}

std::vector<int> Segment::Lacking(const std::function<bool(int)>& there) const {
  std::vector<int> missing;
  for (int r = 0; r < nranks_; ++r) {
    if (!there(r)) missing.push_back(r);
  }
  return missing;
}

bool Segment::IsGone(int rank) {
  const Member& who = member(rank);
  return header()->pid_namespace == PidNamespace() && StartTimeOf(who.pid) != who.start_time;
}

bool Segment::WaitMembers(const char* kind, const std::function<bool(int)>& there,
                          const std::atomic<bool>& cancelled) {
  auto missing = [&] { return Lacking(there); };
  return WaitHosts(
      kind, [&] { return missing().empty(); }, cancelled, missing);
}

bool Segment::WaitHosts(const char* kind, const std::function<bool()>& ready,
                        const std::atomic<bool>& cancelled,
                        const std::function<std::vector<int>()>& missing) {
  std::atomic<uint32_t>& event = header()->host_event;
  Engine* engine = gordianEmuEngine(kEngineApiVersion);
  uint32_t seen = event.load();
  if (ready()) return true;
  if (cancelled.load()) return false;
  HostWait wait;
  wait.kind = kind;
  wait.word = &event;
  wait.seen.store(seen);
  wait.describe = [&] { return label() + ", \"for\": " + ListOf(missing()); };
  engine->BeginWait(&wait);
  bool is_ready = false;
  for (;;) {
    // litmus: hosts.seen
    seen = event.load();
    is_ready = ready();
    if (is_ready || cancelled.load()) break;
    wait.seen.store(seen);
    FutexWait(&event, seen);
  }
  engine->EndWait(&wait);
  return is_ready;
}

std::string ListOf(const std::vector<int>& numbers) {
  std::string text = "[";
  for (int number : numbers) text += (text.size() > 1 ? ", " : "") + std::to_string(number);
  return text + "]";
}

}  // namespace gordian::emu::nccl
