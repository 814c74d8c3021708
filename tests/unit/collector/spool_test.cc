#include "collector/uplink/spool.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "collector/uplink/outgoing.h"

namespace gordian::collector {
namespace {

namespace fs = std::filesystem;

class SpoolTest : public ::testing::Test {
 protected:
  SpoolTest() {
    std::string pattern = ::testing::TempDir() + "/spool.XXXXXX";
    base_ = mkdtemp(pattern.data());
    folder_ = base_ + "/spool";
  }
  ~SpoolTest() override { fs::remove_all(base_); }

  // Contents that depend on the number and do not compress to nothing.
  static v1::EventBatch Batch(uint64_t number, size_t bytes = 300) {
    std::mt19937_64 random(number);
    std::string text(bytes, ' ');
    for (char& c : text) {
      c = static_cast<char>('!' + random() % 90);
    }
    v1::EventBatch batch;
    batch.set_number(number);
    batch.add_events()->mutable_module()->set_path(text);
    return batch;
  }

  Spool::Options Options(uint64_t segment_bytes = 2000) const {
    return {.folder = folder_, .max_bytes = 64 << 20, .segment_bytes = segment_bytes};
  }

  size_t Segments() const {
    std::error_code error;
    size_t count = 0;
    for (const auto& entry : fs::directory_iterator(folder_, error)) {
      count += entry.path().extension() == ".gspool" ? 1 : 0;
    }
    return count;
  }

  std::string base_, folder_;
};

// A link takes the folder's place: the files of the same names in the other folder stay.
TEST_F(SpoolTest, ALinkInPlaceOfTheFolderLeadsNothingAstray) {
  Spool spool(Options());
  for (uint64_t number = 1; number <= 20; ++number) {
    ASSERT_TRUE(spool.Append(Batch(number)).ok());
  }
  const std::string victim = base_ + "/victim";
  fs::create_directory(victim);
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    std::ofstream(victim + "/" + entry.path().filename().string()) << "precious";
    ++files;
  }
  ASSERT_GT(files, 1u);
  fs::rename(folder_, base_ + "/aside");
  fs::create_directory_symlink(victim, folder_);
  for (uint64_t number = 21; number <= 40; ++number) {
    ASSERT_TRUE(spool.Append(Batch(number)).ok());
  }
  v1::EventBatch batch;
  for (uint64_t number = 1; number <= 40; ++number) {
    ASSERT_TRUE(spool.Next(&batch).value());
    EXPECT_EQ(batch.number(), number);
  }
  spool.Release(40);
  EXPECT_EQ(spool.bytes(), 0u);
  EXPECT_TRUE(fs::is_symlink(folder_));
  EXPECT_TRUE(fs::is_empty(base_ + "/aside"));
  for (const auto& entry : fs::directory_iterator(victim)) {
    std::string text;
    std::ifstream(entry.path()) >> text;
    EXPECT_EQ(text, "precious");
    --files;
  }
  EXPECT_EQ(files, 0u);
}

TEST_F(SpoolTest, FirstInFirstOutAndGivenBackWhenAcknowledged) {
  Spool spool(Options());
  EXPECT_FALSE(fs::exists(folder_)) << "no folder before there is something to keep";
  for (uint64_t n = 1; n <= 50; ++n) {
    ASSERT_TRUE(spool.Append(Batch(n)).ok());
  }
  EXPECT_GT(Segments(), 3u);
  EXPECT_EQ(spool.waiting(), 50u);
  for (uint64_t n = 1; n <= 50; ++n) {
    v1::EventBatch batch;
    const StatusOr<bool> got = spool.Next(&batch);
    ASSERT_TRUE(got.ok() && *got);
    EXPECT_EQ(batch.SerializeAsString(), Batch(n).SerializeAsString());
    if (n == 25) {
      spool.Release(20);  // taken and acknowledged in part
    }
  }
  v1::EventBatch none;
  EXPECT_FALSE(*spool.Next(&none));
  spool.Release(49);
  EXPECT_GE(Segments(), 1u) << "what was not acknowledged stays";
  spool.Release(50);
  EXPECT_EQ(spool.bytes(), 0u);
  EXPECT_FALSE(fs::exists(folder_));
  // And it begins again.
  ASSERT_TRUE(spool.Append(Batch(51)).ok());
  EXPECT_TRUE(*spool.Next(&none));
  EXPECT_EQ(none.number(), 51u);
}

TEST_F(SpoolTest, WritesAndReadsTurnByTurnAsANaiveQueueDoes) {
  std::mt19937_64 random(7);
  Spool spool(Options(1500));
  std::deque<uint64_t> naive;
  uint64_t number = 0, taken = 0;
  for (int step = 0; step < 3000; ++step) {
    if (random() % 2 == 0) {
      ASSERT_TRUE(spool.Append(Batch(++number, random() % 400)).ok());
      naive.push_back(number);
    } else {
      v1::EventBatch batch;
      const StatusOr<bool> got = spool.Next(&batch);
      ASSERT_TRUE(got.ok());
      ASSERT_EQ(*got, !naive.empty());
      if (*got) {
        ASSERT_EQ(batch.number(), naive.front());
        naive.pop_front();
        taken = batch.number();
      }
    }
    if (random() % 5 == 0) {
      spool.Release(taken - std::min<uint64_t>(taken, random() % 5));
    }
    ASSERT_EQ(spool.waiting(), naive.size());
  }
}

TEST_F(SpoolTest, TheBoundHolds) {
  Spool spool({.folder = folder_, .max_bytes = 3 << 20, .segment_bytes = 1 << 20});
  uint64_t number = 0;
  while (!spool.Full()) {
    ASSERT_TRUE(spool.Append(Batch(++number, 100'000)).ok());
    ASSERT_LT(number, 1000u);
  }
  EXPECT_LE(spool.bytes(), 3u << 20);
  EXPECT_GT(spool.bytes(), 1u << 20);
  v1::EventBatch batch;
  while (*spool.Next(&batch)) {
  }
  spool.Release(number);
  EXPECT_FALSE(spool.Full());
}

// Any byte may be wrong and the file may end anywhere: what stands before is read, in order and as
// it was written, and the damage is said.
TEST_F(SpoolTest, DamageEndsASegmentAndIsNamed) {
  {
    Spool spool(Options(1 << 20));
    for (uint64_t n = 1; n <= 30; ++n) {
      ASSERT_TRUE(spool.Append(Batch(n)).ok());
    }
  }
  const std::string path = fs::directory_iterator(folder_)->path().string();
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string whole = text.str();
  std::vector<size_t> ends = {8};  // of the entries
  while (ends.back() < whole.size()) {
    uint32_t length = 0;
    for (int i = 3; i >= 0; --i) {
      length =
          length << 8 | static_cast<unsigned char>(whole[ends.back() + static_cast<size_t>(i)]);
    }
    ends.push_back(ends.back() + 8 + length);
  }
  ASSERT_EQ(ends.size(), 31u);
  std::mt19937_64 random(11);
  for (int round = 0; round < 600; ++round) {
    std::string damaged = whole;
    const size_t at = random() % whole.size();
    const bool cut = round % 2 == 0;
    if (cut) {
      damaged.resize(at);
    } else {
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8));
    }
    std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
    uint64_t good = 0;
    if (at >= 8) {
      while (good < 30 && ends[good + 1] <= at) {
        ++good;
      }
    }
    uint64_t next = 0;
    const StatusOr<SpoolContents> contents = ReadSpool(folder_, [&](v1::EventBatch&& batch) {
      ++next;
      EXPECT_EQ(batch.SerializeAsString(), Batch(next).SerializeAsString());
    });
    ASSERT_TRUE(contents.ok());
    EXPECT_EQ(contents->batches, good) << (cut ? "cut at " : "bit at ") << at;
    // A cut between two entries leaves a whole file, as a killed writer does.
    const bool at_an_end = cut && std::find(ends.begin(), ends.end(), at) != ends.end();
    EXPECT_EQ(contents->whole, at_an_end) << at;
    EXPECT_EQ(contents->problem.empty(), at_an_end);
  }
}

TEST_F(SpoolTest, ALiveSpoolGoesOnBehindADamagedSegment) {
  Spool spool(Options());
  for (uint64_t n = 1; n <= 40; ++n) {
    ASSERT_TRUE(spool.Append(Batch(n)).ok());
  }
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  ASSERT_GE(paths.size(), 3u);
  fs::resize_file(paths[1], fs::file_size(paths[1]) - 5);
  uint64_t last = 0, problems = 0, got_batches = 0;
  while (true) {
    v1::EventBatch batch;
    const StatusOr<bool> got = spool.Next(&batch);
    if (!got.ok()) {
      EXPECT_NE(got.status().message().find(paths[1]), std::string::npos);
      ++problems;
      continue;
    }
    if (!*got) {
      break;
    }
    EXPECT_GT(batch.number(), last);
    last = batch.number();
    ++got_batches;
  }
  EXPECT_EQ(problems, 1u);
  EXPECT_EQ(last, 40u);
  EXPECT_EQ(got_batches, 39u);  // one was cut
  EXPECT_EQ(spool.waiting(), 0u);
}

// What was sent and not acknowledged stands between what is on disk: a spill puts it back in its
// place.
TEST_F(SpoolTest, ASpillIsReadBackInOrder) {
  Outgoing outgoing({.spool_dir = folder_,
                     .spool_bytes = 64 << 20,
                     .window_bytes = 1 << 20,
                     .memory_bytes = 1 << 20});
  outgoing.Add(Batch(1), /*online=*/false);
  outgoing.Add(Batch(1), /*online=*/false);
  for (int i = 0; i < 2; ++i) {
    ASSERT_NE(outgoing.Next(), nullptr);
  }
  outgoing.Add(Batch(1), /*online=*/true);  // in memory only
  outgoing.Add(Batch(1), /*online=*/true);
  ASSERT_NE(outgoing.Next(), nullptr);
  outgoing.Add(Batch(1), /*online=*/false);  // on disk again, and nothing was acknowledged
  ASSERT_TRUE(outgoing.Spill().ok());
  std::vector<uint64_t> numbers;
  const StatusOr<SpoolContents> contents =
      ReadSpool(folder_, [&](v1::EventBatch&& batch) { numbers.push_back(batch.number()); });
  ASSERT_TRUE(contents.ok());
  EXPECT_TRUE(contents->whole) << contents->problem;
  EXPECT_EQ(numbers, (std::vector<uint64_t>{1, 2, 3, 4, 5}));
}

TEST_F(SpoolTest, AFullDiskLeavesNoEmptySegmentBehind) {
  Outgoing outgoing({.spool_dir = folder_,
                     .spool_bytes = 64 << 20,
                     .window_bytes = 1 << 20,
                     .memory_bytes = 1 << 20});
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 100;  // the first bytes of a segment fit, a batch does not
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  outgoing.Add(Batch(1), /*online=*/false);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  EXPECT_TRUE(outgoing.TakeProblem().has_value());
  EXPECT_TRUE(outgoing.Full());
  EXPECT_EQ(Segments(), 0u);
  EXPECT_EQ(outgoing.spooled_bytes(), 0u);
  // There is room again.
  outgoing.TryDiskAgain();
  ASSERT_NE(outgoing.Next(), nullptr);
  outgoing.Add(Batch(1), /*online=*/false);
  EXPECT_FALSE(outgoing.Full());
  ASSERT_TRUE(outgoing.Spill().ok());
  std::vector<uint64_t> numbers;
  const StatusOr<SpoolContents> contents =
      ReadSpool(folder_, [&](v1::EventBatch&& batch) { numbers.push_back(batch.number()); });
  ASSERT_TRUE(contents.ok());
  EXPECT_TRUE(contents->whole) << contents->problem;
  EXPECT_EQ(numbers, (std::vector<uint64_t>{1, 2}));
}

// An analyzer that waits for the last batch taken would wait for ever, and never hear of the gap.
TEST_F(SpoolTest, WhenTheLastBatchesCannotBeReadAnEmptyOneFollows) {
  Outgoing outgoing({.spool_dir = folder_,
                     .spool_bytes = 64 << 20,
                     .window_bytes = 1 << 20,
                     .memory_bytes = 1 << 20});
  for (int i = 0; i < 4; ++i) {
    outgoing.Add(Batch(1), /*online=*/false);
  }
  const std::string path = fs::directory_iterator(folder_)->path().string();
  fs::resize_file(path, fs::file_size(path) - 400);  // the last and a part of the one before
  std::vector<uint64_t> numbers;
  while (const Outgoing::Message message = outgoing.Next()) {
    numbers.push_back(message->batch().number());
    EXPECT_EQ(message->batch().events_size(), message->batch().number() <= 2 ? 1 : 0);
  }
  EXPECT_EQ(numbers, (std::vector<uint64_t>{1, 2, 5}));
  EXPECT_TRUE(outgoing.TakeProblem().has_value());
  outgoing.Acknowledge(5);
  EXPECT_TRUE(outgoing.AllArrived());
  EXPECT_EQ(outgoing.taken(), 5u);
}

// Outgoing against a naive twin: whatever is online, acknowledged or rewound, each stream carries
// every number that has not arrived, once and in order, and a spill keeps them all.
TEST_F(SpoolTest, OutgoingSendsEveryNumberInOrder) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    fs::remove_all(folder_);
    std::mt19937_64 random(seed);
    Outgoing outgoing({.spool_dir = folder_,
                       .spool_bytes = seed % 3 == 0 ? (2u << 20) : (64u << 20),
                       .window_bytes = 5000,
                       .memory_bytes = 1 << 20});
    uint64_t expected = 1, arrived = 0, acked = 0;
    bool online = false;
    for (int step = 0; step < 2000; ++step) {
      switch (random() % 8) {
        case 0:
        case 1:
        case 2:
          outgoing.Add(Batch(1, random() % (seed % 3 == 0 ? 20'000 : 500)), online);
          break;
        case 3:
          if (random() % 10 == 0) {  // cut, and back: the analyzer says how far it came
            online = !online;
            if (online) {
              acked = arrived;
              outgoing.Acknowledge(acked);
              outgoing.Rewind();
              expected = acked + 1;
            }
          }
          break;
        case 4:
          if (online && acked < arrived) {
            acked += 1 + random() % (arrived - acked);
            outgoing.Acknowledge(acked);
          }
          break;
        default:
          if (online) {
            const Outgoing::Message message = outgoing.Next();
            if (message != nullptr) {
              ASSERT_EQ(message->batch().number(), expected);
              ++expected;
              if (random() % 20 != 0) {  // else it is on its way when the stream breaks
                arrived = std::max(arrived, message->batch().number());
              } else {
                online = false;
              }
            }
          }
      }
    }
    ASSERT_FALSE(outgoing.TakeProblem().has_value());
    ASSERT_TRUE(outgoing.Spill().ok());
    if (outgoing.taken() == acked) {
      continue;
    }
    uint64_t last = 0;
    const StatusOr<SpoolContents> contents =
        ReadSpool(folder_, [&](v1::EventBatch&& batch) { last = batch.number(); });
    ASSERT_TRUE(contents.ok());
    EXPECT_TRUE(contents->whole) << contents->problem << " seed " << seed;
    EXPECT_LE(contents->first_number, acked + 1);
    EXPECT_EQ(last, outgoing.taken());
  }
}

}  // namespace
}  // namespace gordian::collector
