#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "collector/rings/record_check.h"
#include "collector/rings/ring_drainer.h"
#include "collector/rings/ring_file.h"
#include "collector/rings/state_block.h"
#include "proto/ring/calls.h"
#include "tests/fuzz/fuzz_entry.h"

namespace gordian::fuzz {
namespace {

// Whether the block counts signals of the operation's channel.
bool IsCounted(const v1::StateBlock& block, const v1::PendingOperation& operation) {
  for (const v1::CalledNumbers& numbers : block.numbers()) {
    if (numbers.has_channel() && numbers.comm() == operation.comm() &&
        numbers.peer() == operation.root_or_peer() &&
        numbers.channel().index() == operation.channel().index() &&
        numbers.channel().context() == operation.channel().context()) {
      return true;
    }
  }
  return false;
}

// What a collector does with a ring file, in a file that is `bytes` long and stays so.
void ReadEverything(collector::RingFile* file) {
  ring::Header header;
  file->ReadHeader(&header);
  collector::RingDrainer drainer(file);
  const collector::TickClock clock(header.clock);
  uint64_t handed_out = 0;
  const auto sink = [&](ThreadNumber thread, std::span<ring::Record> records) {
    for (ring::Record& record : records) {
      if (collector::CheckRecord(thread, clock, &record) == collector::Checked::kFine &&
          (record.kind == ring::RecordKind::kNone || record.call >= ring::kCallCount ||
           record.thread != thread.number())) {
        std::abort();
      }
      ++handed_out;
    }
  };
  constexpr uint64_t kMost = 4096;
  for (int pass = 0; pass < 2; ++pass) {
    uint64_t before = handed_out;
    if (drainer.Drain(kMost, sink) > kMost || handed_out - before > kMost) {
      std::abort();
    }
  }
  for (uint32_t i = 0; i < header.threads_used; ++i) {
    ring::ThreadSlot slot;
    bool consistent = false;
    file->ReadThread(i, &slot, &consistent);
    v1::CallDetail detail;
    collector::FillDetail(slot.detail, &detail);
    if (detail.covered_size() > static_cast<int>(ring::kMaxCovered)) {
      std::abort();
    }
  }
  collector::StateBlockReader reader;
  for (const bool all : {false, true}) {
    v1::StateBlock block, back;
    std::string wire;
    if (reader.Read(file, all, &block) &&
        (!block.SerializeToString(&wire) || !back.ParseFromString(wire))) {
      std::abort();
    }
    for (const v1::PendingStream& stream : block.streams()) {
      if (stream.pending_size() > static_cast<int>(ring::kPendingSlots)) {
        std::abort();
      }
      for (const v1::PendingOperation& operation : stream.pending()) {
        if (operation.has_channel() && !IsCounted(block, operation)) {
          std::abort();
        }
      }
    }
  }
  std::vector<ring::StreamSlot> streams;
  std::vector<ring::CommSlot> comms;
  file->ReadStreams(header.streams_used, &streams);
  file->ReadComms(header.comms_used, &comms);
  uint32_t request = 0;
  file->RaiseRound(&request);
}

}  // namespace

void FuzzRingFile(const uint8_t* data, size_t bytes) {
  const int fd = memfd_create("ring", MFD_CLOEXEC);
  const int for_reader = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0 || for_reader < 0 || write(fd, data, bytes) != static_cast<ssize_t>(bytes)) {
    std::perror("memfd");
    std::abort();
  }
  StatusOr<std::unique_ptr<collector::RingFile>> file =
      collector::RingFile::Adopt(for_reader, "fuzzed.ring");
  if (file.ok()) {
    ReadEverything(file->get());
    // And the same in a file that was cut to half meanwhile.
    if (ftruncate(fd, static_cast<off_t>(bytes / 2)) == 0) {
      ReadEverything(file->get());
    }
  } else if (file.status().message().empty()) {
    std::abort();
  }
  close(fd);
}

}  // namespace gordian::fuzz

#ifdef GORDIAN_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  gordian::fuzz::FuzzRingFile(data, bytes);
  return 0;
}
#endif
