#include "collector/rings/salvaged_rings.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "collector/rings/record_check.h"
#include "collector/rings/ring_file.h"
#include "collector/rings/state_block.h"
#include "common/record_block.h"
#include "common/utf8.h"
#include "proto/ring/calls.h"

namespace gordian::collector {
namespace {

constexpr size_t kBlockRecords = 512;  // of an event at most

std::vector<std::string> RingNames(const std::string& folder) {
  std::vector<std::string> names;
  DIR* const dir = opendir(folder.c_str());
  while (const dirent* entry = dir != nullptr ? readdir(dir) : nullptr) {
    if (ParseRingName(entry->d_name)) {
      names.emplace_back(entry->d_name);
    }
  }
  if (dir != nullptr) {
    closedir(dir);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Copies the file into memory, since RingFile maps for writing and the file may lie on a read-only
// disk or belong to another user. Returns a descriptor, or -1 with errno.
int CopyToMemory(const std::string& path) {
  const int from = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info {};
  if (from < 0) {
    return -1;
  }
  int to = -1;
  if (fstat(from, &info) == 0 && S_ISREG(info.st_mode) &&
      static_cast<uint64_t>(info.st_size) <= ring::kMaxFileBytes) {
    to = memfd_create("gordian-salvaged", MFD_CLOEXEC);
  } else {
    errno = EINVAL;
  }
  bool whole = to >= 0 && ftruncate(to, info.st_size) == 0;
  std::vector<char> block(256u << 10);
  for (off_t at = 0; whole && at < info.st_size;) {
    const ssize_t n = pread(from, block.data(), block.size(), at);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      break;  // cut meanwhile: the rest is zero, which is no record
    }
    // Holes stay holes.
    const bool zero = std::all_of(block.begin(), block.begin() + n, [](char c) { return c == 0; });
    whole = zero || pwrite(to, block.data(), static_cast<size_t>(n), at) == n;
    at += n;
  }
  const int error = errno;
  close(from);
  if (!whole && to >= 0) {
    close(to);
    to = -1;
  }
  errno = error;
  return to;
}

}  // namespace

SalvagedRings::SalvagedRings(const std::string& folder, bool also_living) {
  for (const std::string& name : RingNames(folder)) {
    Ring ring;
    ring.name = name;
    ring.parsed = *ParseRingName(name);
    const std::string path = folder + "/" + name;
    struct stat info {};
    if (lstat(path.c_str(), &info) != 0) {
      continue;
    }
    ring.ended = !S_ISLNK(info.st_mode) || ProcessWatch(ring.parsed.identity).Ended();
    if (!ring.ended && !also_living) {
      continue;
    }
    if (Read(path, &ring)) {
      rings_.push_back(std::move(ring));
    } else if (!S_ISLNK(info.st_mode) || access(path.c_str(), F_OK) == 0) {
      unreadable_.push_back(path);
    }
  }
}

bool SalvagedRings::Read(const std::string& path, Ring* ring) {
  const int fd = CopyToMemory(path);
  if (fd < 0) {
    return false;
  }
  StatusOr<std::unique_ptr<RingFile>> file = RingFile::Adopt(fd, path);
  if (!file.ok() || !(*file)->ReadHeader(&ring->header) ||
      (*file)->header().pid != static_cast<uint32_t>(ring->parsed.identity.pid)) {
    return false;
  }
  uint64_t lost = 0;
  ring->nccl_calls = (*file)->NcclCalls();
  for (uint32_t i = 0; i < ring->header.threads_used; ++i) {
    RingFile::RingPosition at;
    if (!(*file)->ReadPosition(i, &at) || at.head == 0) {
      continue;
    }
    lost += at.lost;
    if (!(*file)->ValidRing(at.offset, at.slots)) {
      continue;
    }
    // Records that were taken off the ring stay in it until others need their place: what the
    // collector had read, and not yet written, is among them.
    const uint64_t first = at.head - std::min(at.head, at.slots);
    std::vector<ring::Record> records(at.head - first);
    if (!(*file)->ReadRecords(at.offset, at.slots, first, records)) {
      continue;
    }
    for (const ring::Record& record : records) {
      if (record.kind == ring::RecordKind::kNone ||
          !ring->by_order.emplace(record.order, ring->entries.size()).second) {
        continue;
      }
      ring->entries.push_back({MakeThreadNumber(i, at.generation), record});
    }
  }
  ring->lost = std::max(lost, ring->header.lost_records);
  StateBlockReader block;
  if (!block.Read(file->get(), true, &ring->block)) {
    ring->block.Clear();
  }
  return true;
}

void SalvagedRings::Seen(const v1::Event& event) {
  switch (event.event_case()) {
    case v1::Event::kCallName:
      names_seen_ = true;
      break;
    case v1::Event::kProcessStarted: {
      const v1::ProcessStarted& started = event.process_started();
      last_number_ = std::max(last_number_, started.process());
      last_ns_ = std::max(last_ns_, started.time_ns());
      for (size_t i = 0; i < rings_.size(); ++i) {
        if (rings_[i].process == 0 && rings_[i].name == started.ring()) {
          rings_[i].process = started.process();
          of_process_[started.process()] = i;
        }
      }
      break;
    }
    case v1::Event::kProcessEnded: {
      const auto found = of_process_.find(event.process_ended().process());
      if (found != of_process_.end()) {
        rings_[found->second].end_seen = true;
      }
      break;
    }
    case v1::Event::kRecords: {
      const auto found = of_process_.find(event.records().process());
      Ring* const ring = found == of_process_.end() ? nullptr : &rings_[found->second];
      ForEachRecord(event.records(), [&](const ring::Record& record) {
        last_ns_ = std::max(last_ns_, record.ticks);
        if (ring == nullptr) {
          return;
        }
        const auto place = ring->by_order.find(record.order);
        if (place != ring->by_order.end()) {
          ring->entries[place->second].seen = true;
        }
      });
      break;
    }
    case v1::Event::kRound:
      last_ns_ = std::max(last_ns_, event.round().end_ns());
      break;
    default:
      break;
  }
}

uint64_t SalvagedRings::AddMissing(const Sink& sink) {
  v1::Event event;
  for (uint32_t call = ring::kCallNone + 1; !names_seen_ && call < ring::kEveryCallCount; ++call) {
    event.mutable_call_name()->set_call(call);
    event.mutable_call_name()->set_symbol(ring::RowOf(static_cast<uint16_t>(call)).name);
    sink(event);
  }
  uint64_t added = 0;
  // All processes before any record: who shares a communicator with whom is known by then.
  for (Ring& ring : rings_) {
    if (ring.process != 0) {
      continue;
    }
    ring.process = ++last_number_;
    event.Clear();
    v1::ProcessStarted* const started = event.mutable_process_started();
    started->set_process(ring.process);
    started->set_ring(ring.name);
    started->set_pid(ring.header.pid);
    started->set_main_tid(ring.header.pid);
    started->set_env_rank(ring.header.env_rank);
    started->set_env_world_size(ring.header.env_world_size);
    started->set_env_local_rank(ring.header.env_local_rank);
    started->set_runtime_connect(ring.header.runtime_connect != 0);
    started->set_markers_enabled(true);
    started->set_watcher_tid(ring.header.watcher_tid);
    started->set_shim_build_id(TextOf(ring.header.build_id, sizeof(ring.header.build_id)));
    started->set_time_ns(ring.header.clock.mono_base_ns);
    sink(event);
  }
  for (const Ring& ring : rings_) {
    const TickClock clock(ring.header.clock);
    event.Clear();
    v1::RecordBlock* block = BeginBlock(ring.process, &event);
    for (const Entry& entry : ring.entries) {
      ring::Record record = entry.record;
      if (entry.seen || CheckRecord(entry.thread, clock, &record) != Checked::kFine) {
        continue;
      }
      last_ns_ = std::max(last_ns_, record.ticks);
      AppendRecord(record, block);
      ++added;
      if (RecordsIn(*block) == kBlockRecords) {
        sink(event);
        block->clear_records();
      }
    }
    if (RecordsIn(*block) > 0) {
      sink(event);
    }
  }
  for (const Ring& ring : rings_) {
    if (!ring.ended || ring.end_seen) {
      continue;
    }
    event.Clear();
    v1::ProcessEnded* const ended = event.mutable_process_ended();
    ended->set_process(ring.process);
    ended->set_kind(v1::EXIT_KIND_UNKNOWN);  // the files do not record how it ended
    ended->set_time_ns(last_ns_);
    ended->set_lost_records(ring.lost);
    ended->set_nccl_calls(ring.nccl_calls);
    if (ring.block.comms_size() > 0) {
      *ended->mutable_block() = ring.block;
    }
    sink(event);
  }
  return added;
}

}  // namespace gordian::collector
