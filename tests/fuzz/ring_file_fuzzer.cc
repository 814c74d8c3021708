#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
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

std::string SmallRingFile() {
  constexpr uint32_t kSlots = 8, kRings = 4;
  constexpr uint64_t kRecords = 64;
  ring::Header header{};
  header.magic = ring::kRingMagic;
  header.abi_version = ring::kRingAbiVersion;
  header.header_bytes = sizeof(header);
  header.pid = 1;
  header.clock.ns_per_tick_q32 = 1ull << 32;
  header.threads_offset = (sizeof(ring::Header) + 63) / 64 * 64;
  header.streams_offset = header.threads_offset + kSlots * sizeof(ring::ThreadSlot);
  header.comms_offset = header.streams_offset + kSlots * sizeof(ring::StreamSlot);
  header.numbers_offset = header.comms_offset + kSlots * sizeof(ring::CommSlot);
  header.rings_offset = header.numbers_offset + kSlots * sizeof(ring::NumberSlot);
  header.max_threads = header.max_streams = header.max_comms = header.max_numbers = kSlots;
  const uint64_t queue = header.rings_offset + kRings * kRecords * sizeof(ring::Record);
  header.file_bytes = queue + sizeof(ring::PendingQueue);
  std::string bytes(header.file_bytes, '\0');
  std::memcpy(bytes.data(), &header, sizeof(header));
  for (uint32_t i = 0; i < kRings; ++i) {
    ring::ThreadSlot slot{};
    slot.tid = i + 1;
    slot.ring_offset = header.rings_offset + i * kRecords * sizeof(ring::Record);
    slot.ring_slots = kRecords;
    slot.ring_head = kRecords - i;
    std::memcpy(bytes.data() + header.threads_offset + i * sizeof(slot), &slot, sizeof(slot));
  }
  ring::StreamSlot stream{};
  stream.stream = 1;
  stream.pending_offset = queue;
  std::memcpy(bytes.data() + header.streams_offset, &stream, sizeof(stream));
  return bytes;
}

// Bytes that begin as a ring file does are one. All others are changes to a small file: the place of
// a word, in two bytes, and its eight bytes, again and again. No fuzzer guesses a header.
void FuzzRingFile(const uint8_t* data, size_t bytes) {
  static const std::string kSmall = SmallRingFile();
  std::string changed;
  if (bytes < sizeof(ring::kRingMagic) ||
      std::memcmp(data, kSmall.data(), sizeof(ring::kRingMagic)) != 0) {
    changed = kSmall;
    for (; bytes >= 10; data += 10, bytes -= 10) {
      const size_t word = (data[0] | static_cast<size_t>(data[1]) << 8) % (changed.size() / 8);
      std::memcpy(changed.data() + 8 * word, data + 2, 8);
    }
    data = reinterpret_cast<const uint8_t*>(changed.data());
    bytes = changed.size();
  }
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
