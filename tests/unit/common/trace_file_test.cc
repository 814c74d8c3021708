#include "common/trace_file.h"

#include <fcntl.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zstd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/budget.h"
#include "common/crc32.h"
#include "common/record_block.h"
#include "common/version.h"
#include "tests/fuzz/fuzz_entry.h"

namespace gordian {
namespace {

class TraceFileTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "trace_file_test." + std::to_string(getpid()) + ".gtrace";
  }
  void TearDown() override { std::filesystem::remove(path_); }

  static v1::Event Record(uint64_t order) {
    v1::Event event;
    ring::Record record{};
    record.order = order;
    record.payload.operation.count = order * 3;
    AppendRecord(record, BeginBlock(static_cast<uint32_t>(1 + order % 4), &event));
    return event;
  }

  // `chunks` chunks of `per_chunk` events after the header's.
  void WriteTrace(int chunks, int per_chunk, bool close = true) {
    v1::TraceHeader header;
    header.set_command_line("./train");
    header.set_host("node0");
    header.add_environment("NCCL_ALGO=Ring");
    auto writer = TraceWriter::Create(path_, header);
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    uint64_t order = 0;
    for (int i = 0; i < chunks; ++i) {
      for (int k = 0; k < per_chunk; ++k) {
        ASSERT_TRUE((*writer)->Append(Record(++order)).ok());
      }
      ASSERT_TRUE((*writer)->Flush().ok());
    }
    if (close) {
      ASSERT_TRUE((*writer)->Close().ok());
    }
  }

  std::string Bytes() const {
    std::ifstream in(path_, std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  }
  void Overwrite(const std::string& bytes) const {
    std::ofstream out(path_, std::ios::binary | std::ios::trunc);
    out << bytes;
  }

  std::string path_;
};

std::string Framed(const v1::TraceChunk& chunk) {
  const std::string plain = chunk.SerializeAsString();
  std::string frame(ZSTD_compressBound(plain.size()), '\0');
  frame.resize(ZSTD_compress(frame.data(), frame.size(), plain.data(), plain.size(), 1));
  std::string out;
  for (uint32_t value : {static_cast<uint32_t>(frame.size()), Crc32(frame.data(), frame.size())}) {
    for (int i = 0; i < 4; ++i) {
      out += static_cast<char>(value >> (8 * i));
    }
  }
  return out + frame;
}

TEST(Crc32Test, KnownValues) {
  EXPECT_EQ(Crc32("", 0), 0u);
  EXPECT_EQ(Crc32("123456789", 9), 0xCBF43926u);
  const std::string text = "The quick brown fox jumps over the lazy dog";
  EXPECT_EQ(Crc32(text.data(), text.size()), 0x414FA339u);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(Crc32(text.data() + cut, text.size() - cut, Crc32(text.data(), cut)), 0x414FA339u);
  }
}

TEST_F(TraceFileTest, RoundTrip) {
  WriteTrace(5, 100);
  auto reader = TraceReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  EXPECT_EQ((*reader)->header().format(), kTraceFormat);
  EXPECT_EQ((*reader)->header().gordian_version(), kVersion);
  EXPECT_EQ((*reader)->header().command_line(), "./train");
  EXPECT_EQ((*reader)->header().environment(0), "NCCL_ALGO=Ring");
  uint64_t order = 0;
  while (const v1::TraceChunk* const chunk = (*reader)->Next()) {
    for (const v1::Event& event : chunk->events()) {
      ++order;
      ASSERT_EQ(RecordsIn(event.records()), 1u);
      EXPECT_EQ(RecordAt(event.records(), 0).order, order);
      EXPECT_EQ(RecordAt(event.records(), 0).payload.operation.count, order * 3);
    }
  }
  EXPECT_EQ(order, 500u);
  EXPECT_EQ((*reader)->ending(), TraceReader::Ending::kComplete);
  EXPECT_EQ((*reader)->Describe(), "complete: 7 whole chunks, 500 events");
}

// Whatever gordian writes it reads again, however little of it is left when it is packed.
TEST_F(TraceFileTest, WhatExpandsALotIsPadded) {
  auto writer = TraceWriter::Create(path_, {});
  ASSERT_TRUE(writer.ok());
  for (int i = 0; i < 40; ++i) {
    v1::Event event;
    event.mutable_call_name()->set_call(1);
    event.mutable_call_name()->set_symbol(std::string(4 << 20, 'x'));
    ASSERT_TRUE((*writer)->Append(event).ok());
    ASSERT_TRUE((*writer)->Flush().ok());
  }
  ASSERT_TRUE((*writer)->Close().ok());
  auto reader = TraceReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  int events = 0;
  while (const v1::TraceChunk* const chunk = (*reader)->Next()) events += chunk->events_size();
  EXPECT_EQ(events, 40);
  EXPECT_EQ((*reader)->ending(), TraceReader::Ending::kComplete) << (*reader)->Describe();
  EXPECT_TRUE((*reader)->bounds().ok());
}

TEST_F(TraceFileTest, BoundsAreNamed) {
  const auto refused = [this](const std::string& frames) {
    WriteTrace(1, 1, /*close=*/false);
    const std::string good = Bytes();
    Overwrite(good + frames);
    auto reader = TraceReader::Open(path_);
    EXPECT_TRUE(reader.ok());
    while ((*reader)->Next() != nullptr) {
    }
    EXPECT_EQ((*reader)->ending(), TraceReader::Ending::kDamaged);
    Overwrite(good);
    return (*reader)->bounds().message();
  };
  // One frame.
  v1::TraceChunk chunk;
  chunk.add_events()->mutable_call_name()->set_symbol(std::string(64 << 20, 'x'));
  EXPECT_NE(refused(Framed(chunk)).find("chunk 3: its "), std::string::npos);
  // All of them.
  chunk.mutable_events(0)->mutable_call_name()->set_symbol(std::string(1000 << 10, 'x'));
  std::string many;
  for (int i = 0; i < 60; ++i) many += Framed(chunk);
  EXPECT_NE(refused(many).find("up to there"), std::string::npos);
  // What one is made into.
  const std::string empty = {'\x12', '\0'};  // events: {}
  std::string all;
  for (int i = 0; i < 450'000; ++i) all += empty;
  std::string why;
  EXPECT_TRUE(FitsMemory(all, *v1::TraceChunk::descriptor(), 160 << 20, &why)) << why;
  EXPECT_FALSE(FitsMemory(all, *v1::TraceChunk::descriptor(), 80 << 20, &why));
  EXPECT_NE(why.find("80 MiB"), std::string::npos) << why;
}

TEST(Budget, NoMessageOfATraceHasManyFields) {
  std::set<const google::protobuf::Descriptor*> known = {v1::TraceChunk::descriptor()};
  std::vector<const google::protobuf::Descriptor*> left(known.begin(), known.end());
  while (!left.empty()) {
    const google::protobuf::Descriptor* const type = left.back();
    left.pop_back();
    EXPECT_LE(type->field_count(), kMostFields) << type->full_name();
    for (int i = 0; i < type->field_count(); ++i) {
      const google::protobuf::Descriptor* const part = type->field(i)->message_type();
      if (part != nullptr && known.insert(part).second) left.push_back(part);
    }
  }
  EXPECT_GT(known.size(), 10u);
}

TEST_F(TraceFileTest, WritesChunksByItself) {
  auto writer = TraceWriter::Create(path_, {});
  ASSERT_TRUE(writer.ok());
  for (uint64_t i = 1; i <= 50'000; ++i) {
    ASSERT_TRUE((*writer)->Append(Record(i)).ok());
  }
  // Nothing was flushed or closed: this is what a crash at this moment leaves.
  auto reader = TraceReader::Open(path_);
  ASSERT_TRUE(reader.ok());
  while ((*reader)->Next() != nullptr) {
  }
  EXPECT_GT((*reader)->chunks(), 2u);
  EXPECT_GT((*reader)->events(), 40'000u);
  EXPECT_EQ((*reader)->ending(), TraceReader::Ending::kIncomplete);
}

TEST_F(TraceFileTest, ReaderFollowsAGrowingFile) {
  auto writer = TraceWriter::Create(path_, {});
  ASSERT_TRUE(writer.ok());
  auto reader = TraceReader::Open(path_);
  ASSERT_TRUE(reader.ok());
  EXPECT_NE((*reader)->Next(), nullptr);
  EXPECT_EQ((*reader)->Next(), nullptr);
  ASSERT_TRUE((*writer)->Append(Record(1)).ok());
  ASSERT_TRUE((*writer)->Flush().ok());
  const v1::TraceChunk* const chunk = (*reader)->Next();
  ASSERT_NE(chunk, nullptr);
  EXPECT_EQ(RecordAt(chunk->events(0).records(), 0).order, 1u);
  ASSERT_TRUE((*writer)->Close().ok());
  EXPECT_NE((*reader)->Next(), nullptr);
  EXPECT_EQ((*reader)->Next(), nullptr);
  EXPECT_EQ((*reader)->ending(), TraceReader::Ending::kComplete);
}

TEST_F(TraceFileTest, CutAtEveryByte) {
  WriteTrace(4, 5);
  const std::string whole = Bytes();
  // Where chunks end, from the bytes themselves.
  std::vector<size_t> ends;
  for (size_t at = kTraceMagicBytes; at < whole.size();) {
    uint32_t length = 0;
    for (int i = 3; i >= 0; --i) {
      length = length << 8 | static_cast<unsigned char>(whole[at + static_cast<size_t>(i)]);
    }
    at += 8 + length;
    ends.push_back(at);
  }
  ASSERT_EQ(ends.size(), 6u);  // header, four, the closing one
  ASSERT_EQ(ends.back(), whole.size());
  for (size_t cut = 0; cut < whole.size(); ++cut) {
    Overwrite(whole.substr(0, cut));
    const auto reader = TraceReader::Open(path_);
    if (cut < ends[0]) {
      ASSERT_FALSE(reader.ok()) << cut;
      EXPECT_EQ(reader.status().code(), StatusCode::kDataLoss);
      EXPECT_NE(reader.status().message().find(path_), std::string::npos);
      continue;
    }
    ASSERT_TRUE(reader.ok()) << cut << " " << reader.status().ToString();
    const auto chunks = static_cast<uint64_t>(
        std::count_if(ends.begin(), ends.end(), [&](size_t end) { return end <= cut; }));
    while ((*reader)->Next() != nullptr) {
    }
    EXPECT_EQ((*reader)->chunks(), chunks) << cut;
    EXPECT_EQ((*reader)->events(), 5 * (chunks - 1)) << cut;
    EXPECT_EQ((*reader)->ending(), TraceReader::Ending::kIncomplete) << cut;
    EXPECT_EQ((*reader)->Describe(), "incomplete: ended after " + std::to_string(chunks) +
                                         " whole chunks, " + std::to_string(5 * (chunks - 1)) +
                                         " events");
  }
}

TEST_F(TraceFileTest, EveryChangedByteIsNoticed) {
  WriteTrace(2, 3);
  const std::string whole = Bytes();
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x41);
    Overwrite(bytes);
    const auto reader = TraceReader::Open(path_);
    if (!reader.ok()) {
      continue;  // one clear error
    }
    while ((*reader)->Next() != nullptr) {
    }
    EXPECT_NE((*reader)->ending(), TraceReader::Ending::kComplete) << at;
    EXPECT_LT((*reader)->events(), 6u + 1) << at;
  }
}

TEST_F(TraceFileTest, OtherFilesAndNewerFormats) {
  EXPECT_EQ(TraceReader::Open(path_ + ".none").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(TraceReader::Open("/tmp").status().code(), StatusCode::kInvalidArgument);
  Overwrite("#!/bin/sh\necho not a trace\n");
  EXPECT_EQ(TraceReader::Open(path_).status().code(), StatusCode::kDataLoss);
  EXPECT_NE(TraceReader::Open(path_).status().message().find("is not a gordian trace"),
            std::string::npos);

  Overwrite("GTRACE2\n and who knows what");
  EXPECT_EQ(TraceReader::Open(path_).status().code(), StatusCode::kNewerVersion);

  v1::TraceChunk chunk;
  chunk.mutable_header()->set_format(kTraceFormat + 1);
  chunk.mutable_header()->set_gordian_version("9.9.9");
  Overwrite(kTraceMagic + Framed(chunk));
  const Status newer = TraceReader::Open(path_).status();
  EXPECT_EQ(newer.code(), StatusCode::kNewerVersion);
  EXPECT_NE(newer.message().find("newer gordian (9.9.9"), std::string::npos) << newer.message();

  chunk.mutable_header()->set_format(kTraceFormat);
  chunk.mutable_header()->set_record_abi(ring::kRingAbiVersion + 1);
  Overwrite(kTraceMagic + Framed(chunk));
  const Status records = TraceReader::Open(path_).status();
  EXPECT_EQ(records.code(), StatusCode::kNewerVersion);
  EXPECT_NE(
      records.message().find("records of version " + std::to_string(ring::kRingAbiVersion + 1)),
      std::string::npos)
      << records.message();

  chunk.Clear();
  chunk.add_events();
  Overwrite(kTraceMagic + Framed(chunk));
  EXPECT_EQ(TraceReader::Open(path_).status().code(), StatusCode::kDataLoss);
}

TEST_F(TraceFileTest, LengthsAreNotBelieved) {
  WriteTrace(1, 1, /*close=*/false);
  const std::string whole = Bytes();
  for (const std::string& tail :
       {std::string("\xff\xff\xff\xff\0\0\0\0data", 12), std::string("\0\0\0\0\0\0\0\0", 8)}) {
    Overwrite(whole + tail);
    auto reader = TraceReader::Open(path_);
    ASSERT_TRUE(reader.ok());
    while ((*reader)->Next() != nullptr) {
    }
    EXPECT_EQ((*reader)->events(), 1u);
    EXPECT_EQ((*reader)->ending(), TraceReader::Ending::kDamaged);
    EXPECT_TRUE((*reader)->Describe().starts_with("damaged (chunk length"))
        << (*reader)->Describe();
  }
}

TEST_F(TraceFileTest, FullDiskLeavesWholeChunks) {
  auto writer = TraceWriter::Create(path_, {});
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Append(Record(1)).ok());
  ASSERT_TRUE((*writer)->Flush().ok());
  // A limit on the size of files stands in for a full disk: the next chunk fits in part only.
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{.rlim_cur = (*writer)->bytes() + 10, .rlim_max = old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  for (uint64_t i = 2; i <= 20; ++i) {
    ASSERT_TRUE((*writer)->Append(Record(i)).ok());
  }
  const Status full = (*writer)->Flush();
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_FALSE(full.ok());
  EXPECT_EQ((*writer)->lost_events(), 19u);
  // With room again it goes on.
  ASSERT_TRUE((*writer)->Append(Record(21)).ok());
  ASSERT_TRUE((*writer)->Close().ok());
  auto reader = TraceReader::Open(path_);
  ASSERT_TRUE(reader.ok());
  while ((*reader)->Next() != nullptr) {
  }
  EXPECT_EQ((*reader)->events(), 2u);
  EXPECT_EQ((*reader)->ending(), TraceReader::Ending::kComplete);
}

TEST_F(TraceFileTest, FuzzSmoke) {
  WriteTrace(3, 4);
  const std::string whole = Bytes();
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    std::string bytes = whole;
    if (seed % 3 == 0) {
      bytes.resize(random() % 600);
      for (size_t i = seed % 2 == 0 ? 0 : 8; i < bytes.size(); ++i) {
        bytes[i] = static_cast<char>(random());
      }
    } else {
      for (uint32_t i = 0; i < 1 + random() % 8; ++i) {
        bytes[random() % bytes.size()] = static_cast<char>(random());
      }
      bytes.resize(random() % (bytes.size() + 1));
    }
    SCOPED_TRACE(seed);
    fuzz::FuzzTraceReader(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
}

TEST(TraceWriting, AFullDiskAndALinkAreErrors) {
  const auto full = TraceWriter::Create("/dev/full", {});
  ASSERT_FALSE(full.ok());
  EXPECT_NE(full.status().message().find("No space left"), std::string::npos);
  std::string pattern = ::testing::TempDir() + "/trace.XXXXXX";
  const std::string folder = mkdtemp(pattern.data());
  const std::string victim = folder + "/victim";
  std::ofstream(victim) << "precious";
  std::filesystem::create_symlink(victim, folder + "/link");
  EXPECT_FALSE(TraceWriter::Create(folder + "/link", {}).ok());
  const OwnedFolder held = OwnedFolder::Open(folder).value();
  EXPECT_FALSE(TraceWriter::Create(held, "link", {}).ok());
  EXPECT_FALSE(TraceWriter::Continue(held, "link", kTraceMagicBytes).ok());
  std::string text;
  std::ifstream(victim) >> text;
  EXPECT_EQ(text, "precious");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace gordian
