#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/importers/flight_recorder.h"
#include "replayer/record/from_flight_recorder.h"
#include "replayer/record/schedule.h"
#include "replayer/verify/witness.h"
#include "replayer/write/cxx_writer.h"

namespace gordian::replayer {
namespace {

using importers::FlightDump;
using importers::FlightEntry;
using importers::FlightGroup;

FlightGroup Group(const std::string& name, std::vector<int> ranks) {
  return {name, "desc " + name, std::move(ranks)};
}

// Dumps of a job, made call by call.
class Job {
 public:
  explicit Job(int ranks) : dumps_(static_cast<size_t>(ranks)) {
    for (int i = 0; i < ranks; ++i) dumps_[static_cast<size_t>(i)].rank = i;
  }
  void Has(const FlightGroup& group) {
    for (const int rank : group.ranks) At(rank).groups[group.Key()] = group;
  }
  // Of the collectives of a group, a rank has called and ended so many.
  void Status(int rank, const FlightGroup& group, int64_t enqueued, int64_t completed) {
    At(rank).status[group.Key()] = {enqueued, completed};
  }
  FlightEntry& Calls(int rank, const FlightGroup& group, int64_t sequence,
                     const std::string& operation, int64_t elements = 16) {
    FlightEntry entry;
    entry.record = ++record_;
    entry.group = group.Key();
    entry.sequence = sequence;
    entry.operation = operation;
    entry.elements_in = entry.elements_out = elements;
    entry.type = "Float";
    entry.site = "train.py:" + std::to_string(record_) + " step";
    At(rank).entries.push_back(entry);
    return At(rank).entries.back();
  }
  // `peer` is its rank in the group.
  FlightEntry& Transfers(int rank, const FlightGroup& group, int64_t sequence,
                         const std::string& operation, int peer) {
    FlightEntry& entry = Calls(rank, group, sequence, operation);
    entry.p2p = true;
    entry.sends = operation == "send";
    entry.peer = peer;
    return entry;
  }
  void Loses(int rank) { dumps_.erase(dumps_.begin() + rank); }
  Extracted Schedule() const { return ScheduleFlightDumps(dumps_, "dumps"); }

 private:
  FlightDump& At(int rank) { return dumps_[static_cast<size_t>(rank)]; }
  std::vector<FlightDump> dumps_;
  int64_t record_ = 0;
};

const std::vector<Op>& OpsOf(const Schedule& schedule, size_t rank) {
  return schedule.ranks.at(rank).threads.at(0).ops;
}

std::string Names(const Schedule& schedule, size_t rank) {
  std::string text;
  for (const Op& op : OpsOf(schedule, rank))
    text += (text.empty() ? "" : " ") + std::string(Name(op.kind));
  return text;
}

bool Notes(const Schedule& schedule, const std::string& part) {
  return std::any_of(schedule.origin.notes.begin(), schedule.origin.notes.end(),
                     [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

// Makes sense, can be written, and so can what the verdict names of it.
const Schedule& Good(const Extracted& extracted) {
  for (const std::string& reason : extracted.refused) ADD_FAILURE() << reason;
  for (const Schedule& schedule : {extracted.schedule, CutToWitness(extracted.schedule)}) {
    for (const std::string& problem : Check(schedule)) ADD_FAILURE() << problem;
    EXPECT_GT(CountOperations(schedule), 0u);
    EXPECT_NE(WriteCxx(schedule, {}).find("suspected"), std::string::npos);
  }
  return extracted.schedule;
}

std::string Refusal(const Extracted& extracted) {
  return extracted.refused.empty() ? "" : extracted.refused.front();
}

// Rank 2 has stopped calling: its pair waits for it, the others for what rank 3 calls after that.
Job Lagging(bool ended) {
  const FlightGroup all = Group("0", {0, 1, 2, 3}), pair = Group("2", {2, 3});
  Job job(4);
  job.Has(all);
  job.Has(pair);
  for (const int rank : {0, 1}) {
    job.Calls(rank, all, 7, "all_reduce").completed = ended;
    job.Status(rank, all, 7, ended ? 7 : 6);
  }
  job.Calls(3, pair, 40, "_all_gather_base").completed = ended;
  job.Status(3, pair, 40, ended ? 40 : 39);
  for (const int rank : {2, 3}) job.Status(rank, all, ended ? 7 : 6, ended ? 7 : 6);
  job.Status(2, pair, ended ? 40 : 39, ended ? 40 : 39);
  return job;
}

TEST(FlightReplay, ARankThatIsMissing) {
  const Extracted extracted = Lagging(false).Schedule();
  const Schedule& schedule = Good(extracted);
  EXPECT_EQ(schedule.origin.signature.verdict, "rank_not_joined");
  EXPECT_EQ(schedule.origin.confidence, "suspected");
  EXPECT_EQ(schedule.origin.operations, 3u);
  ASSERT_EQ(schedule.ranks.size(), 4u);
  EXPECT_EQ(Names(schedule, 0), "AllReduce");
  EXPECT_EQ(Names(schedule, 1), "AllReduce");
  EXPECT_EQ(Names(schedule, 2), "Sleep");
  EXPECT_EQ(Names(schedule, 3), "AllGather");
  ASSERT_EQ(schedule.comms.size(), 2u);
  EXPECT_EQ(schedule.comms[0].name, "desc_0");
  EXPECT_EQ(schedule.comms[0].members, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(schedule.comms[1].members, (std::vector<int>{2, 3}));
  EXPECT_TRUE(schedule.comms[0].ready);
  EXPECT_TRUE(schedule.comms[0].connected);  // its seventh
  EXPECT_EQ(OpsOf(schedule, 0)[0].site, "train.py:1 step");
  EXPECT_EQ(OpsOf(schedule, 0)[0].count, 16u);
  EXPECT_EQ(OpsOf(schedule, 0)[0].datatype, 7);
  EXPECT_TRUE(Notes(schedule, "one stream for each process group"));
  EXPECT_TRUE(Notes(schedule, "rank 2 is in the program's own code"));
  EXPECT_FALSE(Notes(schedule, "each operation waits for the earlier calls"));
}

TEST(FlightReplay, AJobThatEndedIsRefused) {
  EXPECT_NE(Refusal(Lagging(true).Schedule()).find("show no hang"), std::string::npos);
}

TEST(FlightReplay, WhoLeftNoDumpIsNotGuessed) {
  Job job = Lagging(false);
  job.Loses(2);
  EXPECT_NE(Refusal(job.Schedule()).find("rank 2"), std::string::npos);
}

// The pair's second operation was called by both and is open: it stands behind the one that rank 2
// is missing from.
Extracted Behind(bool pair_is_open) {
  const FlightGroup all = Group("0", {0, 1, 2}), pair = Group("1", {0, 1});
  Job job(3);
  job.Has(all);
  job.Has(pair);
  for (const int rank : {0, 1}) {
    job.Calls(rank, all, 5, "all_reduce");
    job.Calls(rank, pair, 9, "all_reduce").completed = !pair_is_open;
  }
  job.Status(2, all, 4, 4);
  return job.Schedule();
}

TEST(FlightReplay, WhatIsOpenForNoOtherReasonStandsBehindTheCallsBefore) {
  const Extracted open = Behind(true), done = Behind(false);
  EXPECT_EQ(Names(Good(open), 0), "AllReduce EventRecord StreamWaitEvent AllReduce");
  const std::vector<Op>& ops = OpsOf(open.schedule, 0);
  EXPECT_EQ(ops[1].stream, ops[0].stream);
  EXPECT_EQ(ops[2].stream, ops[3].stream);
  EXPECT_NE(ops[0].stream, ops[3].stream);
  EXPECT_EQ(ops[1].event, ops[2].event);
  EXPECT_TRUE(Notes(open.schedule, "otherwise 2 operations would not be open"));
  EXPECT_EQ(Names(open.schedule, 2), "Sleep");
  EXPECT_EQ(Names(Good(done), 0), "AllReduce");
  EXPECT_FALSE(Notes(done.schedule, "would not be open"));
}

// Rank 1 has not noticed the end of what the others are through with.
TEST(FlightReplay, WhatAnotherMemberHasDoneIsOver) {
  const FlightGroup all = Group("0", {0, 1, 2});
  Job job(3);
  job.Has(all);
  job.Calls(1, all, 3, "all_reduce");
  for (const int rank : {0, 2}) job.Calls(rank, all, 4, "all_reduce");
  const Extracted extracted = job.Schedule();
  const Schedule& schedule = Good(extracted);
  EXPECT_EQ(Names(schedule, 0), "AllReduce");
  EXPECT_EQ(Names(schedule, 1), "Sleep");
  EXPECT_TRUE(Notes(schedule, "1 call open in a dump"));
}

// A root may be through with a broadcast that others wait for; its part is not in its dump any
// more.
TEST(FlightReplay, ARootThatIsDoneCallsAllTheSame) {
  const FlightGroup all = Group("0", {0, 1, 2});
  Job job(3);
  job.Has(all);
  job.Calls(1, all, 3, "broadcast");
  job.Status(0, all, 3, 3);
  job.Status(1, all, 3, 2);
  job.Status(2, all, 2, 2);
  const Extracted extracted = job.Schedule();
  const Schedule& schedule = Good(extracted);
  EXPECT_EQ(Names(schedule, 0), "Broadcast Sleep");
  EXPECT_EQ(Names(schedule, 1), "Broadcast");
  EXPECT_EQ(OpsOf(schedule, 1)[0].root_or_peer, 0);
  EXPECT_EQ(Names(schedule, 2), "Sleep");
}

TEST(FlightReplay, ACircleOfTwoGroups) {
  const FlightGroup a = Group("1", {0, 1}), b = Group("2", {0, 1});
  Job job(2);
  job.Has(a);
  job.Has(b);
  job.Calls(0, a, 5, "all_reduce");
  job.Calls(1, b, 8, "all_reduce");
  for (const int rank : {0, 1}) {
    job.Status(rank, a, rank == 0 ? 5 : 4, 4);
    job.Status(rank, b, rank == 1 ? 8 : 7, 7);
  }
  const Extracted extracted = job.Schedule();
  const Schedule& schedule = Good(extracted);
  EXPECT_EQ(schedule.origin.signature.verdict, "deadlock");
  EXPECT_TRUE(schedule.origin.signature.edges.empty());
  EXPECT_EQ(Names(schedule, 0), "AllReduce");
  EXPECT_EQ(Names(schedule, 1), "AllReduce");
  EXPECT_NE(OpsOf(schedule, 0)[0].comm, OpsOf(schedule, 1)[0].comm);
  EXPECT_TRUE(OpsOf(schedule, 0)[0].witness);
}

TEST(FlightReplay, ARankThatCallsSomethingElse) {
  const FlightGroup all = Group("0", {0, 1, 2});
  Job job(3);
  job.Has(all);
  for (const int rank : {0, 1}) job.Calls(rank, all, 6, "all_reduce");
  job.Calls(2, all, 6, "_all_gather_base");
  const Extracted extracted = job.Schedule();
  const Schedule& schedule = Good(extracted);
  EXPECT_EQ(schedule.origin.signature.verdict, "mismatch");
  EXPECT_EQ(Names(schedule, 0), "AllReduce");
  EXPECT_EQ(Names(schedule, 2), "AllGather");
}

// Single ones have a communicator and a stream of their pair, as in PyTorch; those of a batch the
// group's.
TEST(FlightReplay, SendsAndReceives) {
  const FlightGroup line = Group("5", {4, 2, 0});
  for (const bool batch : {false, true}) {
    Job job(5);
    job.Has(line);
    const FlightGroup all = Group("0", {0, 1, 2, 3, 4});  // somebody must be missing somewhere
    job.Has(all);
    job.Transfers(2, line, 11, "send", 2);
    job.Transfers(2, line, batch ? 11 : 12, "recv", 0);
    job.Calls(2, all, 3, "all_reduce");
    job.Status(4, all, 2, 2);
    job.Status(0, all, 3, 2);
    job.Status(1, all, 3, 2);
    job.Status(3, all, 3, 2);
    const Extracted extracted = job.Schedule();
    const Schedule& schedule = Good(extracted);
    ASSERT_EQ(schedule.ranks.size(), 5u);
    const std::vector<Op>& ops = OpsOf(schedule, 2);
    const auto send =
        std::find_if(ops.begin(), ops.end(), [](const Op& op) { return op.kind == OpKind::kSend; });
    const auto recv =
        std::find_if(ops.begin(), ops.end(), [](const Op& op) { return op.kind == OpKind::kRecv; });
    ASSERT_NE(send, ops.end());
    ASSERT_NE(recv, ops.end());
    const auto rank_of = [&](const Op& op) {
      const Communicator& comm = schedule.comms.at(static_cast<size_t>(op.comm));
      return schedule.ranks
          .at(static_cast<size_t>(comm.members.at(static_cast<size_t>(op.root_or_peer))))
          .rank;
    };
    EXPECT_EQ(rank_of(*send), 0);
    EXPECT_EQ(rank_of(*recv), 4);
    EXPECT_EQ(send->in_group, batch);
    EXPECT_EQ(send->comm == recv->comm, batch);
    EXPECT_EQ(send->stream == recv->stream, batch);
    EXPECT_EQ(schedule.comms[static_cast<size_t>(send->comm)].members.size(), batch ? 3u : 2u);
    EXPECT_EQ(ops[0].kind == OpKind::kGroupStart, batch);
  }
}

TEST(FlightReplay, SizesAndTypes) {
  const FlightGroup all = Group("0", {0, 1, 2, 3});
  Job job(4);
  job.Has(all);
  for (const int rank : {0, 1, 2}) {
    job.Calls(rank, all, 2, "all_reduce", int64_t{1} << 30).type = "BFloat16";
    FlightEntry& gather = job.Calls(rank, all, 3, "_all_gather_base", 100);
    gather.elements_out = 400;
    gather.type = "Long";
    FlightEntry& scatter = job.Calls(rank, all, 4, "_reduce_scatter_base", 400);
    scatter.elements_out = 100;
    job.Calls(rank, all, 5, "all_to_all", 80 + rank).type = "Quaternion";
    job.Calls(rank, all, 6, "all_reduce", -1);
  }
  job.Status(3, all, 1, 1);
  const Extracted extracted = job.Schedule();
  const Schedule& schedule = Good(extracted);
  const std::vector<Op>& ops = OpsOf(schedule, 2);
  ASSERT_EQ(ops.size(), 5u);
  EXPECT_EQ(ops[0].count, (uint64_t{16} << 20) / 2);
  EXPECT_EQ(ops[0].datatype, 9);
  EXPECT_TRUE(Notes(schedule, "16 MiB"));
  EXPECT_EQ(ops[1].count, 100u);
  EXPECT_EQ(ops[1].datatype, 4);
  EXPECT_EQ(ops[2].count, 100u);
  EXPECT_EQ(ops[3].count, 20u);  // the smallest, the same at all
  EXPECT_TRUE(Notes(schedule, "equal splits"));
  EXPECT_TRUE(Notes(schedule, "Quaternion"));
  EXPECT_EQ(ops[4].count, 1u);
  EXPECT_TRUE(Notes(schedule, "sizes that the dumps do not give"));
}

TEST(FlightReplay, WhatReplaysDoNotMakeIsRefused) {
  const FlightGroup all = Group("0", {0, 1});
  Job job(2);
  job.Has(all);
  job.Calls(0, all, 2, "all_reduce_quantum");
  job.Status(1, all, 1, 1);
  EXPECT_NE(Refusal(job.Schedule()).find("all_reduce_quantum"), std::string::npos);
}

TEST(FlightReplay, MoreRanksThanTheEmulatorHasByItself) {
  std::vector<int> ranks(12);
  for (int i = 0; i < 12; ++i) ranks[static_cast<size_t>(i)] = i;
  const FlightGroup all = Group("0", ranks);
  Job job(12);
  job.Has(all);
  for (int rank = 0; rank < 11; ++rank) job.Calls(rank, all, 1, "all_reduce");
  job.Status(11, all, 0, 0);
  const Extracted extracted = job.Schedule();
  const Schedule& schedule = Good(extracted);
  EXPECT_FALSE(schedule.comms[0].connected);  // its first
  ASSERT_EQ(schedule.environment.size(), 1u);
  EXPECT_EQ(schedule.environment[0],
            (std::pair<std::string, std::string>("GORDIAN_EMU_DEVICES", "12")));
}

TEST(FlightReplay, AMissingRankMayBeToldAsOneInItsOwnCode) {
  EXPECT_TRUE(IsHangOfDumps({"host_blocked", {}}, {"rank_not_joined", {}}));
  EXPECT_TRUE(IsHangOfDumps({"deadlock", {"host_sync"}}, {"deadlock", {}}));
  EXPECT_FALSE(IsHangOfDumps({"rank_exited", {}}, {"rank_not_joined", {}}));
  EXPECT_FALSE(IsHangOfDumps({"host_blocked", {}}, {"deadlock", {}}));
}

}  // namespace
}  // namespace gordian::replayer
