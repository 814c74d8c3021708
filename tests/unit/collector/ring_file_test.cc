#include "collector/rings/ring_file.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "collector/rings/state_block.h"
#include "common/clock.h"
#include "tests/fuzz/fuzz_entry.h"
#include "tests/unit/collector/fake_shim.h"

namespace gordian::collector {
namespace {

using testing_support::FakeShim;
using testing_support::TemporaryDir;

TEST(RingFileTest, ReadsWhatAWriterWrote) {
  TemporaryDir dir;
  FakeShim shim(dir.path(), getpid(), 64, 2);
  shim.AddThread(0, 77);
  shim.stream(1)->stream = 9;
  shim.stream(1)->enqueued = 5;
  shim.header()->streams_used = 2;  // the first is free
  shim.comm(0)->comm = 3;
  shim.comm(0)->next_sequence = 12;
  shim.header()->comms_used = 1;
  ASSERT_TRUE(shim.Publish(0, FakeShim::Point(41)));
  shim.EnterCall(0, ring::kCall_ncclAllReduce, 2);

  auto file = RingFile::Open(shim.path());
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  RingFile& ring = **file;
  EXPECT_EQ(ring.header().pid, static_cast<uint32_t>(getpid()));
  ring::Header header;
  ASSERT_TRUE(ring.ReadHeader(&header));
  EXPECT_EQ(header.threads_used, 1u);
  ring::ThreadSlot slot;
  bool consistent = false;
  ASSERT_TRUE(ring.ReadThread(0, &slot, &consistent));
  EXPECT_TRUE(consistent);
  EXPECT_EQ(slot.tid, 77u);
  EXPECT_EQ(slot.call, ring::kCall_ncclAllReduce);
  EXPECT_EQ(slot.ring_head, 1u);
  std::vector<ring::StreamSlot> streams;
  ASSERT_TRUE(ring.ReadStreams(header.streams_used, &streams));
  ASSERT_EQ(streams.size(), 1u);
  EXPECT_EQ(streams[0].stream, 9u);
  std::vector<ring::CommSlot> comms;
  ASSERT_TRUE(ring.ReadComms(header.comms_used, &comms));
  ASSERT_EQ(comms.size(), 1u);
  EXPECT_EQ(comms[0].next_sequence, 12u);
  ring::Record record;
  ASSERT_TRUE(ring.ReadRecords(slot.ring_offset, slot.ring_slots, 0, {&record, 1}));
  EXPECT_EQ(record.payload.work.ordinal, 41u);
  ASSERT_TRUE(ring.StoreTail(0, 1));
  EXPECT_EQ(shim.thread(0)->ring_tail, 1u);
}

TEST(RingFileTest, RefusesWhatIsNone) {
  TemporaryDir dir;
  const std::string path = dir.path() + "/1.2.ring";
  EXPECT_EQ(RingFile::Open(path).status().code(), StatusCode::kNotFound);
  std::ofstream(path) << "short";
  EXPECT_EQ(RingFile::Open(path).status().code(), StatusCode::kDataLoss);
  unlink(path.c_str());
  ASSERT_EQ(symlink("/etc/passwd", path.c_str()), 0);
  EXPECT_FALSE(RingFile::Open(path).ok()) << "a link must not be followed";
  unlink(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(RingFile::Open(path).status().code(), StatusCode::kDataLoss);  // and does not wait
  unlink(path.c_str());
  std::ofstream huge(path);
  huge.close();
  ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(ring::kMaxFileBytes + 1)), 0);
  EXPECT_EQ(RingFile::Open(path).status().code(), StatusCode::kDataLoss);
}

TEST(RingFileTest, RefusesEachLieOfAHeader) {
  TemporaryDir dir;
  FakeShim shim(dir.path(), getpid(), 64, 1);
  const ring::Header good = *shim.header();
  using Lie = std::function<void(ring::Header*)>;
  const std::vector<std::pair<const char*, Lie>> lies = {
      {"magic", [](ring::Header* h) { h->magic ^= 1; }},
      {"abi", [](ring::Header* h) { h->abi_version = 0; }},
      {"header size", [](ring::Header* h) { h->header_bytes = 8; }},
      {"file size", [](ring::Header* h) { h->file_bytes += 64; }},
      {"pid 0", [](ring::Header* h) { h->pid = 0; }},
      {"pid negative", [](ring::Header* h) { h->pid = 0x80000001; }},
      {"many threads", [](ring::Header* h) { h->max_threads = ring::kMaxThreads + 1; }},
      {"many streams", [](ring::Header* h) { h->max_streams = UINT32_MAX; }},
      {"many comms", [](ring::Header* h) { h->max_comms = ring::kMaxComms + 1; }},
      {"threads in header", [](ring::Header* h) { h->threads_offset = 8; }},
      {"threads outside", [](ring::Header* h) { h->threads_offset = UINT32_MAX - 7; }},
      {"threads at the end",
       [&](ring::Header* h) { h->threads_offset = static_cast<uint32_t>(shim.bytes() - 8); }},
      {"unaligned", [](ring::Header* h) { h->streams_offset += 4; }},
      {"comms outside", [](ring::Header* h) { h->comms_offset = UINT32_MAX & ~7u; }},
      {"rings outside", [](ring::Header* h) { h->rings_offset = UINT64_MAX; }},
  };
  ASSERT_TRUE(RingFile::Open(shim.path()).ok());
  for (const auto& [what, lie] : lies) {
    *shim.header() = good;
    lie(shim.header());
    const auto file = RingFile::Open(shim.path());
    EXPECT_FALSE(file.ok()) << what;
    EXPECT_EQ(file.status().code(), StatusCode::kDataLoss) << what;
  }
  *shim.header() = good;
  shim.header()->abi_version = ring::kRingAbiVersion + 1;
  EXPECT_EQ(RingFile::Open(shim.path()).status().code(), StatusCode::kNewerVersion);
}

TEST(RingFileTest, LayoutOnOpenCounts) {
  TemporaryDir dir;
  FakeShim shim(dir.path(), getpid(), 64, 1);
  shim.AddThread(0, 1);
  auto file = RingFile::Open(shim.path());
  ASSERT_TRUE(file.ok());
  // A writer gone bad: none of this may be believed any more.
  shim.header()->threads_offset = UINT32_MAX & ~7u;
  shim.header()->streams_offset = UINT32_MAX & ~7u;
  shim.header()->max_threads = UINT32_MAX;
  ring::Header header;
  EXPECT_FALSE((*file)->ReadHeader(&header));
  EXPECT_TRUE((*file)->damaged());
  EXPECT_FALSE((*file)->broken());
  ring::ThreadSlot slot;
  bool consistent;
  EXPECT_TRUE((*file)->ReadThread(0, &slot, &consistent));
  EXPECT_EQ(slot.tid, 1u);
  EXPECT_FALSE((*file)->ReadThread(ring::kMaxThreads, &slot, &consistent));
}

TEST(RingFileTest, CountsBeyondReachAreDamage) {
  TemporaryDir dir;
  FakeShim shim(dir.path(), getpid(), 64, 1);
  shim.AddThread(0, 1);
  const ring::Header good = *shim.header();
  for (uint64_t ring::Header::*count :
       {&ring::Header::order, &ring::Header::lost_records, &ring::Header::skipped_kernels}) {
    *shim.header() = good;
    auto file = RingFile::Open(shim.path());
    ASSERT_TRUE(file.ok());
    ring::Header header;
    shim.header()->*count = kMostCounted;
    EXPECT_TRUE((*file)->ReadHeader(&header));
    shim.header()->*count = kMostCounted + 1;
    EXPECT_FALSE((*file)->ReadHeader(&header));
    *shim.header() = good;  // it does not become whole again
    EXPECT_FALSE((*file)->ReadHeader(&header));
  }
  // Slots beyond the file's are none.
  auto file = RingFile::Open(shim.path());
  ASSERT_TRUE(file.ok());
  shim.header()->threads_used = UINT32_MAX;
  ring::Header header;
  ASSERT_TRUE((*file)->ReadHeader(&header));
  EXPECT_EQ(header.threads_used, ring::kMaxThreads);
}

TEST(RingFileTest, ValidRing) {
  TemporaryDir dir;
  FakeShim shim(dir.path(), getpid(), 64, 2);
  auto file = RingFile::Open(shim.path());
  ASSERT_TRUE(file.ok());
  const uint64_t at = shim.header()->rings_offset;
  EXPECT_TRUE((*file)->ValidRing(at, 64));
  EXPECT_TRUE((*file)->ValidRing(at + 64 * 64, 64));
  EXPECT_TRUE((*file)->ValidRing(at, 128));
  EXPECT_FALSE((*file)->ValidRing(at, 256)) << "beyond the end";
  EXPECT_FALSE((*file)->ValidRing(at, 63)) << "no power of two";
  EXPECT_FALSE((*file)->ValidRing(at, 0));
  EXPECT_FALSE((*file)->ValidRing(at + 4, 32)) << "unaligned";
  EXPECT_FALSE((*file)->ValidRing(0, 32)) << "over the header";
  EXPECT_FALSE((*file)->ValidRing(UINT64_MAX & ~63ull, 1ull << 63));
  ring::Record record;
  EXPECT_FALSE((*file)->ReadRecords(at, 256, 0, {&record, 1}));
}

TEST(RingFileTest, SequenceLockIsHonoured) {
  TemporaryDir dir;
  FakeShim shim(dir.path(), getpid(), 64, 1);
  shim.AddThread(0, 1);
  auto file = RingFile::Open(shim.path());
  ASSERT_TRUE(file.ok());
  std::atomic<bool> stop = false;
  // The writer keeps call_site == since_ticks == entered; a torn read would show them apart.
  std::thread writer([&] {
    ring::ThreadSlot& slot = *shim.thread(0);
    for (uint64_t n = 1; !stop; ++n) {
      __atomic_store_n(&slot.seq, slot.seq + 1, __ATOMIC_RELAXED);
      __atomic_thread_fence(__ATOMIC_RELEASE);
      __atomic_store_n(&slot.call_site, n, __ATOMIC_RELAXED);
      __atomic_store_n(&slot.since_ticks, n, __ATOMIC_RELAXED);
      __atomic_store_n(&slot.entered, n, __ATOMIC_RELAXED);
      __atomic_store_n(&slot.seq, slot.seq + 1, __ATOMIC_RELEASE);
      for (int i = 0; i < 50 && !stop; ++i) {
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
      }
    }
  });
  int good = 0;
  // At least so often, and on until enough were good: the writer may be put off its processor amid
  // a change.
  const uint64_t end = MonoNs() + 20 * kNsPerSecond;
  for (int i = 0; i < 20000 || (good <= 1000 && MonoNs() < end); ++i) {
    ring::ThreadSlot slot;
    bool consistent = false;
    ASSERT_TRUE((*file)->ReadThread(0, &slot, &consistent));
    if (consistent) {
      ++good;
      ASSERT_EQ(slot.call_site, slot.since_ticks);
      ASSERT_EQ(slot.call_site, slot.entered);
    }
  }
  stop = true;
  writer.join();
  EXPECT_GT(good, 1000);
  // A writer that died inside holds it for ever; the reader comes back all the same.
  shim.thread(0)->seq |= 1;
  ring::ThreadSlot slot;
  bool consistent = true;
  EXPECT_TRUE((*file)->ReadThread(0, &slot, &consistent));
  EXPECT_FALSE(consistent);
}

TEST(RingFileTest, AStreamsSlotIsOfOneOwner) {
  TemporaryDir dir;
  FakeShim shim(dir.path(), getpid(), 64, 1);
  auto file = RingFile::Open(shim.path());
  ASSERT_TRUE(file.ok());
  std::atomic<bool> stop = false;
  // Stream n has handle, enqueued and done n.
  std::thread writer([&] {
    ring::StreamSlot& slot = *shim.stream(0);
    for (uint32_t n = 1; !stop; ++n) {
      __atomic_store_n(&slot.stream, 0u, __ATOMIC_RELAXED);
      __atomic_thread_fence(__ATOMIC_RELEASE);
      __atomic_store_n(&slot.handle, uint64_t{n}, __ATOMIC_RELAXED);
      __atomic_store_n(&slot.enqueued, uint64_t{n}, __ATOMIC_RELAXED);
      __atomic_store_n(&slot.done, uint64_t{n}, __ATOMIC_RELAXED);
      __atomic_store_n(&slot.stream, n, __ATOMIC_RELEASE);
      for (int i = 0; i < 50 && !stop; ++i) {
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
      }
    }
  });
  int owned = 0;
  int mixed = 0;
  const uint64_t end = MonoNs() + 20 * kNsPerSecond;
  for (int i = 0; i < 200000 || (owned <= 1000 && MonoNs() < end); ++i) {
    ring::StreamSlot slot;
    if (!(*file)->ReadStream(0, &slot) || slot.stream == ring::kNoId) continue;
    ++owned;
    mixed += slot.handle != slot.stream || slot.enqueued != slot.stream || slot.done != slot.stream;
  }
  stop = true;
  writer.join();
  EXPECT_GT(owned, 1000);
  EXPECT_EQ(mixed, 0);
}

TEST(RingFileTest, AHeadSaysNoMoreThanWhatIsDone) {
  TemporaryDir dir;
  FakeShim shim(dir.path(), getpid(), 64, 1);
  ring::StreamSlot& slot = *shim.stream(0);
  slot.stream = 2;
  slot.enqueued = 3;
  slot.done = 1;
  slot.head = 100;  // of stream 1
  auto file = RingFile::Open(shim.path());
  ASSERT_TRUE(file.ok());
  std::vector<ring::StreamSlot> streams;
  ASSERT_TRUE((*file)->ReadStreams(1, &streams));
  ASSERT_EQ(streams.size(), 1u);
  EXPECT_EQ(streams[0].head, 2u);
  EXPECT_FALSE((*file)->damaged());
}

TEST(RingFileTest, TruncatedUnderTheReader) {
  TemporaryDir dir;
  FakeShim shim(dir.path(), getpid(), 64, 1);
  shim.AddThread(0, 1);
  shim.header()->streams_used = ring::kMaxStreams;
  for (const off_t cut : {off_t{0}, off_t{FakeShim::kHeaderBytes}, off_t{40960}}) {
    ASSERT_EQ(truncate(shim.path().c_str(), static_cast<off_t>(shim.bytes())), 0);
    if (cut == 0) {
      continue;  // below: cut to nothing comes last, since the header goes with it
    }
    auto file = RingFile::Open(shim.path());
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    ASSERT_EQ(truncate(shim.path().c_str(), cut), 0);
    std::vector<ring::StreamSlot> streams;
    EXPECT_FALSE((*file)->ReadStreams(ring::kMaxStreams, &streams));
    EXPECT_TRUE((*file)->broken());
    ring::Header header;
    EXPECT_FALSE((*file)->ReadHeader(&header)) << "broken once, broken for good";
  }
  ASSERT_EQ(truncate(shim.path().c_str(), static_cast<off_t>(shim.bytes())), 0);
  auto file = RingFile::Open(shim.path());
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(truncate(shim.path().c_str(), 0), 0);
  ring::Header header;
  EXPECT_FALSE((*file)->ReadHeader(&header));
  EXPECT_FALSE((*file)->StoreTail(0, 1));
  uint32_t request;
  EXPECT_FALSE((*file)->RaiseRound(&request));
}

// The state block of a file with one communicator whose collectives were called by somebody else
// all the while.
TEST(RingFileTest, NumbersComeWhole) {
  TemporaryDir dir;
  FakeShim shim(dir.path(), getpid(), 64, 1);
  ring::NumberSlot& slot = *shim.numbers(0);
  slot.kind = ring::NumberKind::kCollective;
  shim.header()->numbers_used = 1;
  slot.comm = 7;
  auto file = RingFile::Open(shim.path());
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (uint64_t n = 1; !stop; ++n) {
      __atomic_store_n(&slot.seq, slot.seq + 1, __ATOMIC_RELAXED);
      __atomic_thread_fence(__ATOMIC_RELEASE);
      __atomic_store_n(&slot.next, n, __ATOMIC_RELAXED);
      __atomic_store_n(&slot.hash, n * 3, __ATOMIC_RELAXED);
      __atomic_store_n(&slot.last[n % ring::kSignatures].hash, n * 5, __ATOMIC_RELAXED);
      __atomic_store_n(&slot.seq, slot.seq + 1, __ATOMIC_RELEASE);
      if (n % 8 == 0) sched_yield();  // between calls there is time to read
    }
  });
  int good = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (good <= 1000 && std::chrono::steady_clock::now() < end) {
    ring::NumberSlot copy;
    bool consistent = false;
    ASSERT_TRUE((*file)->ReadNumbers(0, &copy, &consistent));
    if (!consistent || copy.next == 0) {
      sched_yield();
      continue;
    }
    ++good;
    ASSERT_EQ(copy.hash, copy.next * 3);
    ASSERT_EQ(copy.last[copy.next % ring::kSignatures].hash, copy.next * 5);
  }
  stop = true;
  writer.join();
  EXPECT_GT(good, 1000);
  slot.seq |= 1;  // its writer died inside
  ring::NumberSlot copy;
  bool consistent = true;
  EXPECT_TRUE((*file)->ReadNumbers(0, &copy, &consistent));
  EXPECT_FALSE(consistent);
  StateBlockReader reader;
  v1::StateBlock block;
  EXPECT_TRUE(reader.Read(file->get(), true, &block));
  EXPECT_EQ(block.numbers_size(), 0);
  EXPECT_TRUE(block.numbers_incomplete());
  EXPECT_FALSE((*file)->ReadNumbers(ring::kMaxNumbers, &copy, &consistent));
}

TEST(RingFileTest, SignalsAndTheirLines) {
  TemporaryDir dir;
  FakeShim shim(dir.path(), getpid(), 1024, 1);
  const uint64_t offset = shim.header()->rings_offset;  // the ring's place: nobody uses it here
  shim.header()->numbers_used = 3;
  shim.numbers(0)->comm = 2;
  shim.numbers(0)->kind = ring::NumberKind::kCollective;
  ring::NumberSlot& line = *shim.numbers(1);
  line.comm = 2;
  line.kind = ring::NumberKind::kSignalsAwaited;
  line.peer = 5;
  line.channel = {.index = -3, .context = 9};
  line.next = 12;
  line.open = 2;
  ring::NumberSlot& other = *shim.numbers(2);
  other = line;
  other.comm = 3;
  ring::StreamSlot& stream = *shim.stream(0);
  stream.stream = 4;
  stream.enqueued = 3;
  stream.pending_offset = offset;
  shim.header()->streams_used = 1;
  auto* const queue = shim.queue(offset);
  queue->next = 6;
  for (uint16_t i = 0; i < 6; ++i) {
    ring::PendingOperation& operation = queue->ring[i];
    operation.stamp = i + 1u;
    operation.ordinal = 1;
    operation.comm = 2;
    operation.root_or_peer = 5;
    operation.call = ring::kCall_ncclWaitSignal;
    operation.sequence = 10;
    operation.count = 2;
    operation.line =
        i;  // none, of collectives, its own, another communicator's, none that is used, nonsense
  }
  queue->ring[5].line = UINT16_MAX;
  auto file = RingFile::Open(shim.path());
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  StateBlockReader reader;
  v1::StateBlock block;
  ASSERT_TRUE(reader.Read(file->get(), true, &block));
  EXPECT_TRUE(block.signals());
  ASSERT_EQ(block.numbers_size(), 3);
  EXPECT_FALSE(block.numbers(0).has_channel());
  const v1::CalledNumbers& numbers = block.numbers(1);
  EXPECT_EQ(numbers.kind(), static_cast<uint32_t>(ring::NumberKind::kSignalsAwaited));
  EXPECT_EQ(numbers.peer(), 5);
  EXPECT_EQ(numbers.channel().index(), -3);
  EXPECT_EQ(numbers.channel().context(), 9);
  EXPECT_EQ(numbers.next(), 12u);
  EXPECT_EQ(numbers.open(), 2u);
  EXPECT_EQ(numbers.last_size(), 0);
  ASSERT_EQ(block.streams_size(), 1);
  ASSERT_EQ(block.streams(0).pending_size(), 6);
  for (int i = 0; i < 6; ++i) {
    const v1::PendingOperation& operation = block.streams(0).pending(i);
    EXPECT_EQ(operation.has_channel(), i == 2) << i;
    EXPECT_EQ(operation.sequence(), 10u);
    EXPECT_EQ(operation.count(), 2u);
  }
  EXPECT_EQ(block.streams(0).pending(2).channel().index(), -3);
  EXPECT_EQ(block.streams(0).pending(2).channel().context(), 9);
}

TEST(RingFileTest, PendingOperationsAndTheirGap) {
  TemporaryDir dir;
  FakeShim shim(dir.path(), getpid(), 1024, 1);
  const uint64_t offset = shim.header()->rings_offset;  // the ring's place: nobody uses it here
  auto* const queue = shim.queue(offset);
  ring::StreamSlot& stream = *shim.stream(0);
  stream.stream = 4;
  stream.enqueued = 300;
  stream.done = 9;
  stream.synced = 11;
  stream.pending_offset = offset;
  shim.header()->streams_used = 1;
  queue->first = 125;  // goes over the end of the ring
  queue->next = 130;
  for (uint64_t place = 125; place < 130; ++place) {
    ring::PendingOperation& operation = queue->ring[place % ring::kPendingSlots];
    operation.stamp = place + 1;
    operation.ordinal = place - 115;
    operation.after_count = 200;  // more than there is room for
  }
  queue->gap_first = 200;
  queue->gap_last = 300;
  auto file = RingFile::Open(shim.path());
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const auto read = [&] {
    StateBlockReader reader;
    v1::StateBlock block;
    EXPECT_TRUE(reader.Read(file->get(), true, &block));
    EXPECT_EQ(block.streams_size(), 1);
    return block.streams(0);
  };
  v1::PendingStream told = read();
  EXPECT_TRUE(told.whole());
  EXPECT_EQ(told.done(), 11u) << "what a host wait proved counts as well";
  EXPECT_EQ(told.gap_last(), 300u);
  ASSERT_EQ(told.pending_size(), 3) << "10 and 11 are done";
  EXPECT_EQ(told.pending(0).ordinal(), 12u);
  EXPECT_EQ(told.pending(0).after_size(), static_cast<int>(ring::kMaxAfter));
  stream.done = 300;
  EXPECT_EQ(read().gap_last(), 0u) << "what was left out is done";
  queue->ring[128 % ring::kPendingSlots].stamp = 0;  // amid a change
  EXPECT_FALSE(read().whole());
  queue->next = queue->first + ring::kPendingSlots + 1;  // nonsense
  EXPECT_FALSE(read().whole());
  stream.pending_offset = shim.bytes() - 8;
  EXPECT_FALSE(read().whole());
  stream.pending_offset = 0;
  EXPECT_TRUE(read().whole()) << "no operation was ever put on it";
}

TEST(RingFileTest, FuzzSmokeOfRandomBytes) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<uint64_t> words(64 + random() % 512);
    for (uint64_t& word : words) {
      word = random();
    }
    SCOPED_TRACE(seed);
    fuzz::FuzzRingFile(reinterpret_cast<const uint8_t*>(words.data()), words.size() * 8);
  }
}

TEST(RingFileTest, FuzzSmokeOfAGoodHeaderWithRandomRest) {
  const std::string good = fuzz::SmallRingFile();
  for (uint32_t seed = 0; seed < 10'000; ++seed) {
    std::mt19937_64 random(seed);
    std::string bytes = good;
    auto* const words = reinterpret_cast<uint64_t*>(bytes.data());
    const size_t count = bytes.size() / 8;
    const auto* const was = reinterpret_cast<const ring::Header*>(good.data());
    const size_t threads = was->threads_offset / 8, rings = was->rings_offset / 8;
    // State block: garbage, or right but for some words. Rings: garbage with plausible kinds.
    for (size_t i = threads; i < rings; ++i) {
      if (seed % 2 == 0 || random() % 16 == 0) {
        words[i] = random() >> random() % 64;
      }
    }
    for (size_t i = rings; i < count; ++i) {
      words[i] = random() >> random() % 64;
      if (i % 8 == 0) {  // kind, flags, call
        words[i] = (words[i] & ~0xffff00ffull) | random() % 7 | (random() % 128) << 16;
      }
    }
    auto* const header = reinterpret_cast<ring::Header*>(bytes.data());
    header->threads_used = random() % 2 == 0 ? 4 : static_cast<uint32_t>(random());
    header->streams_used = static_cast<uint32_t>(random() >> random() % 64);
    header->comms_used = static_cast<uint32_t>(random() >> random() % 64);
    header->numbers_used = static_cast<uint32_t>(random() >> random() % 64);
    auto* const queue = reinterpret_cast<ring::PendingQueue*>(bytes.data() + bytes.size() -
                                                              sizeof(ring::PendingQueue));
    if (random() % 2 == 0) {  // plausible ends, with entries that are whole or are not
      queue->first = random() % 1000;
      queue->next = queue->first + random() % 140;
      for (uint64_t place = queue->first; place < queue->next; ++place) {
        if (random() % 4 != 0) queue->ring[place % ring::kPendingSlots].stamp = place + 1;
      }
    }
    if (random() % 2 == 0) {  // signals, of lines that are there or are not
      header->numbers_used = 8;
      auto* const numbers = reinterpret_cast<ring::NumberSlot*>(bytes.data() + was->numbers_offset);
      for (uint32_t i = 0; i < 8; ++i) {
        numbers[i].comm = 1 + i % 2;
        numbers[i].peer = static_cast<int32_t>(random() % 3);
        numbers[i].kind = static_cast<ring::NumberKind>(3 + random() % 3);
        numbers[i].seq &= ~1u;
      }
      for (ring::PendingOperation& operation : queue->ring) {
        operation.comm = 1 + static_cast<uint32_t>(random() % 2);
        operation.root_or_peer = static_cast<int32_t>(random() % 3);
        operation.line = static_cast<uint16_t>(random() % 12);
      }
    }
    header->clock.ns_per_tick_q32 = random() >> random() % 64;
    header->clock.mono_base_ns = random() >> random() % 64;
    header->clock.ticks_base = random() >> random() % 64;
    SCOPED_TRACE(seed);
    fuzz::FuzzRingFile(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
}

}  // namespace
}  // namespace gordian::collector
