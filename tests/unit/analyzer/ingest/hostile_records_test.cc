// Records and rounds in which every field is at random what a peer or a damaged file may make it.
// No value from outside indexes anything unchecked; the sanitizers' build of this test sees it.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "analyzer/session/analysis.h"
#include "common/record_block.h"
#include "proto/ring/calls.h"
#include "testing/jobs/recorded_job.h"
#include "tests/fuzz/fuzz_entry.h"

namespace gordian::analyzer {
namespace {

// Bytes of a seed, for the fuzzed function: enough of them for a whole job.
std::vector<uint8_t> BytesOf(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> bytes(64 << 10);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

// GORDIAN_TEST_SEED=n runs one of them alone.
TEST(HostileRecords, IndexNothingThatIsNotThere) {
  const uint64_t first = FromEnvironment("GORDIAN_TEST_SEED", 1);
  const uint64_t end = std::getenv("GORDIAN_TEST_SEED") != nullptr
                           ? first + 1
                           : 1 + FromEnvironment("GORDIAN_TEST_HOSTILE", 400);
  for (uint64_t seed = first; seed < end; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<uint8_t> bytes = BytesOf(seed);
    fuzz::FuzzAnalysis(bytes.data(), bytes.size());
  }
}

// Puts a value that no collector sends into one field of the message, or of one below it.
void Spoil(std::mt19937_64* random, google::protobuf::Message* message) {
  using Field = google::protobuf::FieldDescriptor;
  constexpr int64_t kValues[] = {0, 1, 2, 3, 5, 64, -1, 5000, INT_MAX, INT_MIN, INT64_MAX};
  const int64_t value = kValues[(*random)() % std::size(kValues)];
  const google::protobuf::Reflection& of = *message->GetReflection();
  std::vector<const Field*> fields;
  of.ListFields(*message, &fields);
  if (fields.empty()) return;
  const Field* const field = fields[(*random)() % fields.size()];
  const int size = field->is_repeated() ? of.FieldSize(*message, field) : 0;
  const int place = size == 0 ? 0 : static_cast<int>((*random)() % static_cast<uint64_t>(size));
  if (field->cpp_type() == Field::CPPTYPE_MESSAGE) {
    return Spoil(random, field->is_repeated() ? of.MutableRepeatedMessage(message, field, place)
                                              : of.MutableMessage(message, field));
  }
  if (field->cpp_type() == Field::CPPTYPE_STRING && !field->is_repeated()) {
    std::string text = of.GetString(*message, field);
    if (field->type() != Field::TYPE_BYTES || text.size() < sizeof(ring::Record)) return;
    // A word of a record.
    const size_t word = (*random)() % (text.size() / sizeof(int32_t));
    const auto narrow = static_cast<int32_t>(value);
    std::memcpy(text.data() + word * sizeof narrow, &narrow, sizeof narrow);
    return of.SetString(message, field, text);
  }
  if (field->is_repeated()) return;
  switch (field->cpp_type()) {
    case Field::CPPTYPE_INT32:
      return of.SetInt32(message, field, static_cast<int32_t>(value));
    case Field::CPPTYPE_INT64:
      return of.SetInt64(message, field, value);
    case Field::CPPTYPE_UINT32:
      return of.SetUInt32(message, field, static_cast<uint32_t>(value));
    case Field::CPPTYPE_UINT64:
      return of.SetUInt64(message, field, static_cast<uint64_t>(value));
    case Field::CPPTYPE_BOOL:
      return of.SetBool(message, field, value % 2 != 0);
    default:
      return;
  }
}

testing::RecordedJob HangingJob(uint64_t seed) {
  if (seed % 2 == 0) {
    testing::RecordedJob job = testing::TwoRanks(true);
    for (int round = 0; round < 3; ++round) {
      job.Sleep(1'000'000'000);
      job.Round();
    }
    return job;
  }
  testing::RecordedJob job(3);
  job.MakeCommunicator(7, {0, 1, 2}, "dp");
  job.MakeCommunicator(8, {0, 1}, "tp");
  for (const int rank : {0, 1, 2}) {
    job.MakeStream(rank);
    job.MakeStream(rank);
    job.Collective(rank, "ncclAllReduce", 7, 1, 10);
    job.Kernels(rank, 1);
    job.RecordEvent(rank, 1, 5);
    job.WaitEvent(rank, 2, 5);
  }
  job.Send(0, 8, 1, 2, 10);
  job.Receive(0, 8, 1, 2, 10);
  job.Receive(1, 8, 0, 1, 10);
  job.Collective(2, "ncclBroadcast", 7, 2, 10);
  for (const int rank : {0, 1, 2}) job.BeginSynchronize(rank, 2);
  for (int round = 0; round < 3; ++round) {
    job.Sleep(6'000'000'000);
    job.Round();
  }
  return job;
}

TEST(HostileRecords, OneWrongFieldInAJobThatHangs) {
  const uint64_t programs = FromEnvironment("GORDIAN_TEST_HOSTILE", 400);
  for (uint64_t seed = 1; seed <= programs; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Analysis analysis({});
    testing::RecordedJob job = HangingJob(seed);
    std::vector<v1::Event> events = job.Take();
    for (uint64_t spoiled = 1 + random() % 4; spoiled > 0; --spoiled) {
      Spoil(&random, &events[random() % events.size()]);
    }
    for (const v1::Event& event : events) analysis.OnEvent(event);
    uint64_t revision = 0;
    analysis.StatusJson(&revision);
    analysis.Finish();
  }
}

// One block of a process: what `ncclCommInitRank` (or another call) was passed, and an operation.
void MakeAndUse(uint32_t parent, int32_t nranks, int32_t rank) {
  Analysis events({});
  testing::RecordedJob job(1);
  for (const v1::Event& event : job.Take()) events.OnEvent(event);
  v1::Event name;
  name.mutable_call_name()->set_call(1);
  name.mutable_call_name()->set_symbol("ncclCommInitRank");
  events.OnEvent(name);
  name.mutable_call_name()->set_call(2);
  name.mutable_call_name()->set_symbol("ncclAllReduce");
  events.OnEvent(name);
  v1::Event event;
  v1::RecordBlock* const block = BeginBlock(1, &event);
  ring::Record record{};
  record.kind = ring::RecordKind::kBegin;
  record.call = 1;
  record.thread = 1;
  const auto make = [&](uint32_t comm, uint32_t of, int32_t size, int32_t as) {
    record.payload.comm_init = {.comm = comm,
                                .nranks = size,
                                .rank = as,
                                .device = 0,
                                .uid = comm,
                                .parent = of,
                                .color = 0};
    ++record.order;
    AppendRecord(record, block);
  };
  if (parent != 0) make(parent, 0, 2, 1);
  make(5, parent, nranks, rank);
  record.call = 2;
  record.payload.operation = {.comm = 5, .stream = 1, .count = 1};
  ++record.order;
  AppendRecord(record, block);
  events.OnEvent(event);
  for (int round = 0; round < 2; ++round) {
    job.Round();
    for (const v1::Event& more : job.Take()) events.OnEvent(more);
  }
  events.Finish();
}

TEST(HostileRecords, RanksBeyondTheirCommunicator) {
  for (const int32_t rank : {2, 3, 5, 5000, (1 << 20) - 1, INT_MAX, INT_MIN}) {
    for (const uint32_t parent : {0u, 4u}) {
      SCOPED_TRACE(rank);
      MakeAndUse(parent, 2, rank);
    }
  }
}

}  // namespace
}  // namespace gordian::analyzer
