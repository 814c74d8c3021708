// What is read without protobuf against what protobuf reads of the same bytes: whole, cut and
// damaged.
#include "analyzer/server/plain_events.h"

#include <gtest/gtest.h>

#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "analyzer/server/graph_events.h"
#include "gordian/v1/ingest.pb.h"
#include "gordian/v1/trace.pb.h"
#include "tests/unit/server/recorded_job.h"

namespace gordian::server {
namespace {

using testing::RecordedJob;

// All that the model is told, as text.
class Listener {
 public:
  Listener() : events_(&model_) {
    events_.Tell([](const graph::ProcessInfo&) {},
                 [this](const graph::CallRecord& r) { Record(r); });
    events_.TellRounds([this](const graph::Round& round) { Round(round); });
  }
  GraphEvents& events() { return events_; }
  std::string Told() const { return told_.str() + "dropped " + std::to_string(events_.dropped()); }

 private:
  template <typename... Values>
  void Put(const Values&... values) {
    ((told_ << static_cast<long long>(values) << ' '), ...);
    told_ << '\n';
  }
  void Record(const graph::CallRecord& r) {
    Put(r.process, r.thread, r.kind, r.call, r.flags, r.call_id, r.order, r.time_ns, r.call_site,
        r.comm, r.stream, r.count, r.sequence, r.root_or_peer, r.datatype, r.reduce_op, r.group,
        r.nranks, r.rank, r.device, r.uid, r.parent, r.color, r.stream_flags, r.stream_handle,
        r.connections, r.work, r.wait, r.ordinal, r.event, r.value, r.capture, r.graph, r.result);
    told_ << r.text << '\n';
  }
  void Round(const graph::Round& round) {
    Put(round.round, round.begin_ns, round.end_ns, round.processes.size());
    for (const graph::ProcessState& p : round.processes) {
      Put(p.process, p.alive, p.stopped, p.answered, p.lost_records, p.lost_streams, p.lost_comms,
          p.lost_markers, p.nccl_calls, p.not_visible.size(), p.block != nullptr, p.early_unknown);
      for (const graph::EarlyOperation& e : p.early)
        Put(e.comm, e.transfer, e.sends, e.peer, e.sequence);
      for (const graph::ThreadState& t : p.threads) {
        Put(t.thread, t.tid, t.call, t.call_id, t.call_order, t.since_ns, t.call_site, t.entered,
            t.left, t.published, t.collected, t.gpu_thread, t.poll_object, t.poll_count,
            t.poll_since_ns, t.os_state, t.cpu_ticks, t.context_switches, t.library_thread,
            t.detail != nullptr);
        told_ << t.name << '\n';
      }
      for (const graph::StreamState& s : p.streams) Put(s.stream, s.enqueued, s.head, s.done);
      for (const graph::CommStateNow& c : p.comms) Put(c.comm, c.state, c.next_sequence);
    }
  }

  graph::JobModel model_;
  GraphEvents events_;
  std::ostringstream told_;
};

struct Heard {
  bool taken = false;
  bool last = false;
  size_t events = 0, by_protobuf = 0;
  std::string told;
};

void Start(GraphEvents* events) {
  for (uint32_t process = 1; process <= 4; ++process) {
    v1::Event event;
    event.mutable_process_started()->set_process(process);
    events->OnEvent(event);
  }
}

Heard ByProtobuf(const std::string& bytes) {
  Heard heard;
  v1::TraceChunk chunk;
  heard.taken = chunk.ParseFromString(bytes);
  if (!heard.taken) return heard;
  Listener listener;
  Start(&listener.events());
  for (const v1::Event& event : chunk.events()) listener.events().OnEvent(event);
  heard.last = chunk.last();
  heard.events = static_cast<size_t>(chunk.events_size());
  heard.told = listener.Told();
  return heard;
}

Heard Plainly(const std::string& bytes, plain::Chunk* chunk) {
  Heard heard;
  heard.taken = chunk->Read(bytes);
  if (!heard.taken) return heard;
  Listener listener;
  Start(&listener.events());
  for (const plain::Chunk::Event& event : chunk->events()) {
    switch (event.kind) {
      case plain::Chunk::Kind::kRecord:
        listener.events().OnRecord(chunk->record(event));
        break;
      case plain::Chunk::Kind::kRound:
        listener.events().OnRound(chunk->round(event));
        break;
      case plain::Chunk::Kind::kOther:
        ++heard.by_protobuf;
        listener.events().OnEvent(chunk->other(event));
        break;
    }
  }
  heard.last = chunk->last();
  heard.events = chunk->events().size();
  heard.told = listener.Told();
  return heard;
}

void ExpectTheSame(const std::string& bytes, plain::Chunk* chunk, const std::string& what) {
  const Heard wanted = ByProtobuf(bytes), got = Plainly(bytes, chunk);
  ASSERT_EQ(got.taken, wanted.taken) << what;
  ASSERT_EQ(got.last, wanted.last) << what;
  ASSERT_EQ(got.events, wanted.events) << what;
  ASSERT_EQ(got.told, wanted.told) << what;
}

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  uint64_t Below(uint64_t n) { return random_() % n; }
  // Small ones mostly, and those at the edges.
  uint64_t Number() {
    switch (Below(6)) {
      case 0:
        return 0;
      case 1:
        return UINT64_MAX;
      case 2:
        return random_() >> Below(64);
      default:
        return Below(300);
    }
  }
  int32_t Signed() { return static_cast<int32_t>(Number()) * (Below(2) == 0 ? -1 : 1); }

 private:
  std::mt19937_64 random_;
};

// Every field of the message, by reflection, with some left out.
void Fill(google::protobuf::Message* message, Dice* dice) {
  using google::protobuf::FieldDescriptor;
  const auto* const reflection = message->GetReflection();
  const auto* const descriptor = message->GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* const field = descriptor->field(i);
    if (dice->Below(4) == 0 || field->is_repeated()) continue;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_UINT32:
        reflection->SetUInt32(message, field, static_cast<uint32_t>(dice->Number()));
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        reflection->SetUInt64(message, field, dice->Number());
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        reflection->SetInt32(message, field, dice->Signed());
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        reflection->SetBool(message, field, dice->Below(2) == 0);
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        reflection->SetEnumValue(message, field, static_cast<int>(dice->Below(8)));
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        reflection->SetString(message, field, dice->Below(3) == 0 ? "na\xc3\xafve" : "worker");
        break;
      default:
        break;
    }
  }
}

v1::CallRecord RandomRecord(Dice* dice) {
  v1::CallRecord record;
  Fill(&record, dice);
  record.set_process(static_cast<uint32_t>(dice->Below(6)));
  record.set_call(static_cast<uint32_t>(dice->Below(5)));
  record.set_order(dice->Below(1000));
  const auto* const oneof = v1::CallRecord::descriptor()->oneof_decl(0);
  const int payload =
      static_cast<int>(dice->Below(static_cast<uint64_t>(oneof->field_count()) + 1));
  if (payload < oneof->field_count()) {
    Fill(record.GetReflection()->MutableMessage(&record, oneof->field(payload)), dice);
    if (payload == 7) record.set_kind(v1::RECORD_KIND_END);  // what carries an end must be one
  }
  return record;
}

v1::Round RandomRound(Dice* dice, uint64_t number) {
  v1::Round round;
  round.set_round(number);
  round.set_begin_ns(number * 100);
  round.set_end_ns(number * 100 + dice->Below(50));
  for (uint64_t n = dice->Below(4); n > 0; --n) {
    v1::ProcessState& process = *round.add_processes();
    Fill(&process, dice);
    process.set_process(static_cast<uint32_t>(dice->Below(6)));
    if (dice->Below(8) == 0) process.add_not_visible("something");
    for (uint64_t n = dice->Below(8) == 0 ? dice->Below(4) : 0; n > 0; --n) {
      v1::EarlyOperation& early = *process.add_early();
      early.set_comm(static_cast<uint32_t>(dice->Below(5)));
      early.set_kind(static_cast<uint32_t>(dice->Below(6)));  // some that there are not
      early.set_peer(static_cast<int32_t>(dice->Below(4)) - 1);
      early.set_sequence(dice->Below(1000));
    }
    if (dice->Below(8) == 0) process.set_early_unknown(true);
    if (dice->Below(8) == 0) process.mutable_block()->set_blind(true);
    for (uint64_t i = dice->Below(4); i > 0; --i) {
      v1::ThreadState& thread = *process.add_threads();
      Fill(&thread, dice);
      if (dice->Below(8) == 0) thread.mutable_detail()->set_comm(3);
    }
    for (uint64_t i = dice->Below(3); i > 0; --i) {
      v1::StreamState& stream = *process.add_streams();
      stream.set_stream(static_cast<uint32_t>(dice->Number()));
      stream.set_done(dice->Number());
    }
    for (uint64_t i = dice->Below(3); i > 0; --i) Fill(process.add_comms(), dice);
  }
  return round;
}

std::string RandomChunk(Dice* dice) {
  v1::TraceChunk chunk;
  if (dice->Below(5) == 0) chunk.mutable_header()->set_format(1);
  for (uint64_t n = dice->Below(8) + 1, number = 1; n > 0; --n, ++number) {
    v1::Event& event = *chunk.add_events();
    switch (dice->Below(5)) {
      case 0:
        *event.mutable_round() = RandomRound(dice, number);
        break;
      case 1:
        event.mutable_call_name()->set_call(static_cast<uint32_t>(dice->Below(5)));
        event.mutable_call_name()->set_symbol(dice->Below(2) == 0 ? "ncclAllReduce"
                                                                  : "cudaLaunchKernel");
        break;
      default:
        *event.mutable_record() = RandomRecord(dice);
        break;
    }
  }
  chunk.set_last(dice->Below(4) == 0);
  return chunk.SerializeAsString();
}

TEST(PlainEvents, OfAJobNearlyAllIsReadWithoutProtobuf) {
  RecordedJob job = testing::TwoRanks(/*inverted=*/true);
  job.Round();
  v1::TraceChunk chunk;
  size_t records_and_rounds = 0;
  for (const v1::Event& event : job.events()) {
    *chunk.add_events() = event;
    records_and_rounds +=
        event.has_round() || (event.has_record() && !event.record().has_text()) ? 1 : 0;
  }
  const std::string bytes = chunk.SerializeAsString();
  plain::Chunk plain;
  ExpectTheSame(bytes, &plain, "two ranks");
  const Heard heard = Plainly(bytes, &plain);
  EXPECT_GT(records_and_rounds, 20u);
  EXPECT_EQ(heard.events - heard.by_protobuf, records_and_rounds);
}

TEST(PlainEvents, ReadAsProtobufDoes) {
  plain::Chunk plain;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Dice dice(seed);
    const std::string bytes = RandomChunk(&dice);
    ExpectTheSame(bytes, &plain, "seed " + std::to_string(seed));
    if (HasFatalFailure()) return;
  }
}

TEST(PlainEvents, OfDamagedOnesTheSameAreRefused) {
  plain::Chunk plain;
  size_t refused = 0, taken = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    Dice dice(seed);
    const std::string bytes = RandomChunk(&dice);
    for (int i = 0; i < 10; ++i) {
      std::string damaged = bytes;
      if (i < 3) {
        damaged.resize(dice.Below(bytes.size()));
      } else {
        for (uint64_t n = dice.Below(3) + 1; n > 0; --n) {
          damaged[dice.Below(damaged.size())] = static_cast<char>(dice.Below(256));
        }
      }
      ExpectTheSame(damaged, &plain,
                    "seed " + std::to_string(seed) + ", damage " + std::to_string(i));
      if (HasFatalFailure()) return;
      (plain.Read(damaged) ? taken : refused) += 1;
    }
  }
  EXPECT_GT(refused, 500u);
  EXPECT_GT(taken, 500u);
}

// What becomes of a batch in the trace, with its processes under the job's numbers.
TEST(PlainEvents, BatchesGoIntoTheTraceAsProtobufWouldWriteThem) {
  constexpr uint32_t kBase = 5u << 20;
  plain::Chunk batch;
  size_t records = 0, refused = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Dice dice(seed);
    v1::TraceChunk events;
    ASSERT_TRUE(events.ParseFromString(RandomChunk(&dice)));
    v1::EventBatch sent;
    if (dice.Below(8) != 0) sent.set_number(dice.Number());
    *sent.mutable_events() = events.events();
    std::string bytes = sent.SerializeAsString();
    if (dice.Below(3) == 0) bytes[dice.Below(bytes.size())] = static_cast<char>(dice.Below(256));
    v1::EventBatch want;
    const bool taken = want.ParseFromString(bytes) && want.packed().empty();
    ASSERT_EQ(batch.ReadBatch(bytes), taken) << "seed " << seed;
    refused += taken ? 0 : 1;
    if (!taken) continue;
    ASSERT_EQ(batch.number(), want.number());
    ASSERT_EQ(batch.events().size(), static_cast<size_t>(want.events_size()));
    std::string wire;
    for (size_t i = 0; i < batch.events().size(); ++i) {
      const plain::Chunk::Event& event = batch.events()[i];
      v1::Event& other = *want.mutable_events(static_cast<int>(i));
      ASSERT_NE(event.kind, plain::Chunk::Kind::kRound);
      if (event.kind == plain::Chunk::Kind::kRecord) {
        ++records;
        batch.record(event).of_process += kBase;
        other.mutable_record()->set_process(other.record().process() + kBase);
        plain::AppendTo(batch.record(event), &wire);
      } else {
        plain::AppendTo(batch.other(event), &wire);
      }
    }
    v1::TraceChunk written;
    ASSERT_TRUE(written.ParseFromString(wire)) << "seed " << seed;
    ASSERT_EQ(written.events_size(), want.events_size());
    for (int i = 0; i < written.events_size(); ++i) {
      ASSERT_EQ(written.events(i).SerializeAsString(), want.events(i).SerializeAsString())
          << "seed " << seed << ", " << i;
    }
  }
  EXPECT_GT(records, 3000u);
  EXPECT_GT(refused, 100u);
}

}  // namespace
}  // namespace gordian::server
