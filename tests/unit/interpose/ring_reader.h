// Reads a ring file for the tests: everything at once, with the checks that layout.h asks of a
// reader.
#ifndef GORDIAN_TESTS_UNIT_INTERPOSE_RING_READER_H_
#define GORDIAN_TESTS_UNIT_INTERPOSE_RING_READER_H_

#include <dirent.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "proto/ring/calls.h"
#include "proto/ring/layout.h"
#include "proto/ring/record.h"

namespace gordian::test {

struct RingFile {
  ring::Header header;
  std::vector<ring::ThreadSlot> threads;
  std::vector<ring::StreamSlot> streams;
  std::vector<ring::CommSlot> comms;
  std::vector<ring::NumberSlot> numbers;
  std::vector<ring::PendingOperation> pending;  // of all streams, one stream after the other
  std::vector<ring::Record> records;            // of all threads, in order

  uint64_t NcclCalls() const {
    uint64_t sum = 0;
    for (const ring::ThreadSlot& thread : threads) sum += thread.nccl_calls;
    return sum;
  }

  std::vector<ring::Record> Of(ring::CallId call) const {
    std::vector<ring::Record> found;
    std::copy_if(records.begin(), records.end(), std::back_inserter(found),
                 [&](const ring::Record& record) { return record.call == call; });
    return found;
  }
};

inline std::vector<std::string> RingPaths(const std::string& directory) {
  std::vector<std::string> paths;
  DIR* folder = opendir(directory.c_str());
  if (folder == nullptr) return paths;
  while (const dirent* entry = readdir(folder)) {
    const std::string name = entry->d_name;
    if (name.size() > 5 && name.substr(name.size() - 5) == ".ring") {
      paths.push_back(directory + "/" + name);
    }
  }
  closedir(folder);
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Throws std::runtime_error where the file breaks its contract.
inline RingFile ReadRing(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto need = [&](bool right, const char* what) {
    if (!right) throw std::runtime_error(path + ": " + what);
  };
  const auto copy = [&](void* to, uint64_t offset, uint64_t size) {
    need(offset <= bytes.size() && size <= bytes.size() - offset, "points outside of the file");
    std::memcpy(to, bytes.data() + offset, size);
  };
  RingFile file;
  copy(&file.header, 0, sizeof(file.header));
  const ring::Header& header = file.header;
  need(header.magic == ring::kRingMagic, "magic");
  need(header.abi_version == ring::kRingAbiVersion, "version");
  need(header.file_bytes == bytes.size(), "size");
  need(header.threads_used <= header.max_threads, "threads");
  need(header.streams_used <= header.max_streams, "streams");
  need(header.comms_used <= header.max_comms, "comms");
  file.threads.resize(header.threads_used);
  file.streams.resize(header.streams_used);
  file.comms.resize(header.comms_used);
  copy(file.threads.data(), header.threads_offset, sizeof(ring::ThreadSlot) * header.threads_used);
  copy(file.streams.data(), header.streams_offset, sizeof(ring::StreamSlot) * header.streams_used);
  copy(file.comms.data(), header.comms_offset, sizeof(ring::CommSlot) * header.comms_used);
  need(header.numbers_used <= header.max_numbers, "numbers");
  file.numbers.resize(header.numbers_used);
  copy(file.numbers.data(), header.numbers_offset, sizeof(ring::NumberSlot) * header.numbers_used);
  for (const ring::StreamSlot& stream : file.streams) {
    if (stream.pending_offset == 0) continue;
    ring::PendingQueue queue;
    copy(&queue, stream.pending_offset, sizeof(queue));
    need(queue.next - queue.first <= ring::kPendingSlots, "queue");
    for (uint64_t place = queue.first; place < queue.next; ++place) {
      file.pending.push_back(queue.ring[place % ring::kPendingSlots]);
      need(file.pending.back().stamp == place + 1, "stamp");
    }
  }
  for (const ring::ThreadSlot& thread : file.threads) {
    if (thread.ring_offset == 0) continue;
    need((thread.ring_slots & (thread.ring_slots - 1)) == 0, "ring size");
    need(thread.ring_head - thread.ring_tail <= thread.ring_slots, "ring head");
    uint64_t ticks = 0;
    for (uint64_t i = thread.ring_tail; i < thread.ring_head; ++i) {
      ring::Record record;
      copy(&record, thread.ring_offset + (i & (thread.ring_slots - 1)) * sizeof(record),
           sizeof(record));
      need(record.kind != ring::RecordKind::kNone, "unpublished record below the head");
      need(record.call < ring::kCallCount, "call");
      need(record.ticks >= ticks, "a record that is earlier than the one in front of it");
      ticks = record.ticks;
      file.records.push_back(record);
    }
  }
  std::sort(file.records.begin(), file.records.end(),
            [](const ring::Record& a, const ring::Record& b) { return a.order < b.order; });
  for (size_t i = 1; i < file.records.size(); ++i) {
    need(file.records[i - 1].order < file.records[i].order, "order given twice");
  }
  return file;
}

}  // namespace gordian::test

#endif  // GORDIAN_TESTS_UNIT_INTERPOSE_RING_READER_H_
