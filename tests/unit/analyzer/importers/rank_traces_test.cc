// Traces of PyTorch's profiler and of Chakra, in the documented formats, each verdict beside an
// innocent twin.
#include "analyzer/importers/rank_traces.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "analyzer/importers/chakra.h"
#include "analyzer/importers/kineto.h"
#include "analyzer/importers/packed_input.h"
#include "analyzer/importers/whole_operations.h"
#include "tests/fuzz/fuzz_entry.h"

namespace gordian::importers {
namespace {

using model::VerdictKind;

// A call of a collective, as `record_param_comms` describes it.
struct Call {
  std::string collective = "allreduce";
  int seq = 1;  // -1: none, as older versions of PyTorch
  int elements = 1024;
  std::string type = "Float";
  std::string group = "0";
  std::string ranks = "\"[0, 1]\"";
  int size = 2;
  bool kernel = true;
};

std::string Events(const std::vector<Call>& calls) {
  std::string text;
  int id = 100;
  for (const Call& call : calls) {
    ++id;
    text +=
        (text.empty() ? "" : ",") +
        std::string(R"({"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 7,)") +
        R"( "tid": 7, "ts": 17000)" + std::to_string(id) + R"(.125, "dur": 3.5, "args": {)" +
        R"("External id": )" + std::to_string(id) + R"(, "Collective name": ")" + call.collective +
        R"(", "dtype": ")" + call.type + R"(", "In msg nelems": )" + std::to_string(call.elements) +
        R"(, "Out msg nelems": )" + std::to_string(call.elements) +
        R"(, "In split size": "[]", "Group size": )" + std::to_string(call.size) +
        (call.group.empty() ? "" : R"(, "Process Group Name": ")" + call.group + "\"") +
        R"(, "Process Group Description": "undefined", "Process Group Ranks": )" + call.ranks +
        R"(, "Rank": 0)" + (call.seq < 0 ? "" : R"(, "Seq": )" + std::to_string(call.seq)) + "}}";
    if (call.kernel)
      text += R"(,{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL",)"
              R"( "pid": 0, "tid": 20, "ts": 17001, "dur": 9, "args": {"External id": )" +
              std::to_string(id) + R"(, "stream": 20}})";
  }
  return text;
}

std::string Kineto(int rank, const std::vector<Call>& calls, int world = 2,
                   const std::string& config = "") {
  return R"({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "H200"}],)"
         R"( "distributedInfo": {"backend": "nccl", "rank": )" +
         std::to_string(rank) + R"(, "world_size": )" + std::to_string(world) +
         R"(, "pg_count": 1, "pg_config": [)" + config +
         R"(], "nccl_version": "2.27.5"}, "traceEvents": [{"ph": "M", "name": "process_name",)"
         R"( "pid": 7, "tid": 0, "ts": 1, "args": {"name": "python"}},)" +
         Events(calls) + R"(], "traceName": "t.json"})";
}

RankTrace Parsed(const std::string& text) {
  StatusOr<RankTrace> trace = ParseKinetoTrace(PullText(text));
  EXPECT_TRUE(trace.ok()) << trace.status().ToString() << "\n" << text;
  return trace.ok() ? std::move(*trace) : RankTrace();
}

std::string Refused(const std::string& text) {
  const StatusOr<RankTrace> trace = ParseKinetoTrace(PullText(text));
  EXPECT_FALSE(trace.ok()) << text;
  return trace.ok() ? "" : trace.status().message();
}

model::Verdict Decide(const std::vector<std::vector<Call>>& ranks) {
  std::vector<RankTrace> traces;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    traces.push_back(
        Parsed(Kineto(static_cast<int>(rank), ranks[rank], static_cast<int>(ranks.size()))));
  return DecideRankTraces(std::move(traces));
}

bool Has(const std::vector<std::string>& lines, const std::string& text) {
  for (const std::string& line : lines) {
    if (line.find(text) != std::string::npos) return true;
  }
  return false;
}

// Innocent: only the last and the first operations that each recorded are others.
void ExpectNoFinding(const model::Verdict& verdict) {
  EXPECT_EQ(verdict.main.verdict, VerdictKind::kInconclusive) << verdict.main.summary;
  EXPECT_TRUE(verdict.main.culprit_ranks.empty()) << verdict.main.summary;
  EXPECT_TRUE(verdict.findings.empty());
}

Call Numbered(int seq, Call call = {}) {
  call.seq = seq;
  return call;
}

TEST(Kineto, ReadsWhatACallIs) {
  const RankTrace trace = Parsed(Kineto(1, {Numbered(5), {.collective = "broadcast", .seq = 6}}));
  EXPECT_TRUE(trace.ranked);
  EXPECT_EQ(trace.dump.rank, 1);
  EXPECT_EQ(trace.world, 2);
  EXPECT_TRUE(trace.numbered);
  ASSERT_EQ(trace.dump.entries.size(), 2u);
  const FlightEntry& entry = trace.dump.entries.front();
  EXPECT_EQ(entry.operation, "all_reduce");
  EXPECT_EQ(entry.sequence, 5);
  EXPECT_EQ(entry.elements_in, 1024);
  EXPECT_EQ(entry.type, "Float");
  EXPECT_TRUE(entry.completed);
  const FlightGroup& group = trace.dump.groups.at(entry.group);
  EXPECT_EQ(group.name, "0");
  EXPECT_EQ(group.description, "");
  EXPECT_EQ(group.ranks, (std::vector<int>{0, 1}));
}

TEST(Kineto, ACallWithoutItsKernelIsNotComplete) {
  EXPECT_FALSE(Parsed(Kineto(0, {{.kernel = false}})).dump.entries.front().completed);
}

TEST(Kineto, ReadsListsOfRanksAsTextAndAsNumbers) {
  EXPECT_EQ(Parsed(Kineto(0, {{.ranks = "[0, 1]"}})).dump.groups.begin()->second.ranks,
            (std::vector<int>{0, 1}));
}

// PyTorch cuts a list of more than 30 ranks.
TEST(Kineto, TakesMembersFromDistributedInfoWhereTheListIsCut) {
  const Call call{.group = "5", .ranks = "\"[0, 2, ..., 6]\"", .size = 4};
  const auto group = [&](const std::string& config) {
    return Parsed(Kineto(0, {call}, 8, config)).dump.groups.begin()->second;
  };
  EXPECT_EQ(group(R"({"pg_name": "5", "pg_size": 4, "ranks": [0, 2, 4, 6]})").ranks,
            (std::vector<int>{0, 2, 4, 6}));
  EXPECT_EQ(group(R"({"pg_name": "5", "pg_size": 4, "ranks": "[0, 2, 4, 6]"})").ranks,
            (std::vector<int>{0, 2, 4, 6}));
  // Another group's, or one of another size, are no members of this one.
  for (const char* const other : {R"({"pg_name": "6", "pg_size": 4, "ranks": [0, 2, 4, 6]})",
                                  R"({"pg_name": "5", "pg_size": 2, "ranks": [0, 2]})"}) {
    EXPECT_TRUE(group(other).ranks.empty());
    EXPECT_EQ(group(other).name, "5 [0, 2, ..., 6]");
  }
  // The group of all.
  EXPECT_EQ(Parsed(Kineto(0, {{.ranks = "\"[0, ..., 3]\"", .size = 4}}, 4))
                .dump.groups.begin()
                ->second.ranks,
            (std::vector<int>{0, 1, 2, 3}));
}

TEST(Kineto, WaitsAreNoOperationsAndTransfersAreCounted) {
  const RankTrace trace = Parsed(Kineto(0, {{.collective = "init"},
                                            Numbered(1),
                                            {.collective = "wait"},
                                            {.collective = "send"},
                                            {.collective = "recv"}}));
  EXPECT_EQ(trace.dump.entries.size(), 1u);
  EXPECT_EQ(trace.transfers, 2u);
  EXPECT_EQ(trace.without_metadata, 0u);
  EXPECT_EQ(Parsed(Kineto(0, {{.group = ""}})).without_metadata, 1u);
}

TEST(Kineto, RefusesByByteOrEvent) {
  EXPECT_NE(Refused("").find("byte"), std::string::npos);
  EXPECT_NE(Refused("{\"traceEvents\": [").find("byte"), std::string::npos);
  EXPECT_NE(Refused("{}").find("no traceEvents"), std::string::npos);
  EXPECT_NE(Refused(Kineto(2, {})).find("byte"), std::string::npos);  // ",]"
  EXPECT_NE(Refused(Kineto(2, {{}})).find("rank 2 of 2"), std::string::npos);
  EXPECT_NE(Refused(Kineto(-1, {{}})).find("rank -1"), std::string::npos);
  const std::string long_name(300, 'x');
  EXPECT_NE(Refused(Kineto(0, {{}, {.collective = long_name}})).find("event 4"), std::string::npos);
  std::string deep = "{\"traceEvents\": [{\"args\": {\"x\": ";
  deep.append(100, '[');
  EXPECT_NE(Refused(deep).find("deeper than 64"), std::string::npos);
  const std::string huge =
      "{\"traceEvents\": [{\"name\": \"" + std::string(3u << 20, 'y') + "\"}]}";
  EXPECT_NE(Refused(huge).find("more than 1 MiB"), std::string::npos);
  EXPECT_NE(Refused("[" + std::string(3u << 20, '1') + "]").find("more than 1 MiB"),
            std::string::npos);
}

TEST(Kineto, RefusesGordiansOwnTimelineByName) {
  EXPECT_NE(Refused(R"({"displayTimeUnit": "ms", "traceEvents": [
      {"name": "AllReduce #0 on c", "cat": "done", "ph": "X", "ts": 0.0, "dur": 1.0, "pid": 0,
       "tid": 1, "args": {"state": "done", "called_us": 0.0, "count": 4, "bytes": 16,
       "root_or_peer": -1, "thread": 1, "site": ""}}]})")
                .find("gordian exported it"),
            std::string::npos);
}

TEST(KinetoVerdict, DifferentOperationsUnderOneNumber) {
  const auto job = [](const std::string& third) {
    return Decide({{Numbered(5), Numbered(6), Numbered(7)},
                   {Numbered(5), Numbered(6), Numbered(7)},
                   {Numbered(5), {.collective = third, .seq = 6}, Numbered(7)}});
  };
  const model::Verdict verdict = job("broadcast");
  EXPECT_EQ(verdict.main.check, "mismatch-kind");
  EXPECT_EQ(verdict.main.confidence, model::Confidence::kSuspected);
  EXPECT_EQ(verdict.main.culprit_ranks, (std::vector<int>{2}));
  EXPECT_TRUE(verdict.main.victim_ranks.empty());
  EXPECT_TRUE(verdict.main.cycle.empty());
  ASSERT_EQ(verdict.main.operations.size(), 1u);
  EXPECT_EQ(verdict.main.operations.front().sequence, 6);
  EXPECT_TRUE(model::IsOver(verdict.main));
  EXPECT_FALSE(verdict.main.evidence.assumes.empty());
  EXPECT_TRUE(Has(verdict.main.evidence.not_visible, "hangs"));
  ExpectNoFinding(job("allreduce"));
}

// Only a kernel shows that a call was done.
TEST(KinetoVerdict, WithoutKernelsNoCallIsSaidToBeDone) {
  const Call cpu_only{.seq = 2, .kernel = false};
  const Call other{.collective = "broadcast", .seq = 2, .kernel = false};
  const model::Verdict verdict = Decide({{Numbered(1), cpu_only}, {Numbered(1), other}});
  ASSERT_EQ(verdict.main.check, "mismatch-kind");
  EXPECT_TRUE(verdict.main.operations.empty());
}

TEST(KinetoVerdict, DifferentSizesAndTypes) {
  const auto job = [](const Call& second) {
    return Decide({{Numbered(1), Numbered(2)}, {Numbered(1), second}});
  };
  EXPECT_EQ(job({.seq = 2, .elements = 1000}).main.check, "mismatch-count");
  EXPECT_EQ(job({.seq = 2, .elements = 1000}).main.culprit_ranks, (std::vector<int>{0, 1}));
  EXPECT_EQ(job({.seq = 2, .type = "BFloat16"}).main.check, "mismatch-type");
  ExpectNoFinding(job({.seq = 2}));
}

// Each rank may pass its own sizes, split sizes or none, a list or one tensor.
TEST(KinetoVerdict, WhatRanksMayDoDifferently) {
  const auto job = [](const Call& one, const Call& other) {
    return Decide({{Numbered(1), Numbered(2, one)}, {Numbered(1), Numbered(2, other)}});
  };
  ExpectNoFinding(job({.collective = "all_to_all"}, {.collective = "all_to_allv", .elements = 9}));
  ExpectNoFinding(job({.collective = "all_gather"}, {.collective = "all_gather", .elements = 9}));
  ExpectNoFinding(job({.collective = "all_gather"}, {.collective = "_allgather_base"}));
  ExpectNoFinding(job({.collective = "reduce_scatter"}, {.collective = "_reduce_scatter_base"}));
  // Twins that do differ.
  EXPECT_EQ(job({.collective = "_allgather_base"}, {.collective = "_allgather_base", .elements = 9})
                .main.check,
            "mismatch-count");
  EXPECT_EQ(job({.collective = "all_gather"}, {.collective = "reduce_scatter"}).main.check,
            "mismatch-kind");
}

// Profiles begin and end at different steps.
TEST(KinetoVerdict, WindowsThatBeginAndEndElsewhereAreNoFinding) {
  const model::Verdict verdict =
      Decide({{Numbered(5), Numbered(6), Numbered(7), Numbered(8)}, {Numbered(6), Numbered(7)}});
  ExpectNoFinding(verdict);
  EXPECT_NE(verdict.main.summary.find("agree on the 1 operation that"), std::string::npos)
      << verdict.main.summary;
  EXPECT_NE(verdict.main.summary.find("Rank 1 recorded nothing on group 0 behind #7, others up to "
                                      "#8: its trace may just end earlier."),
            std::string::npos)
      << verdict.main.summary;
  const model::Verdict apart = Decide({{Numbered(5), Numbered(6)}, {Numbered(16), Numbered(17)}});
  ExpectNoFinding(apart);
  EXPECT_NE(apart.main.summary.find("different parts of the job (on group 0 rank 0 #5 to #6, rank "
                                    "1 #16 to #17)"),
            std::string::npos)
      << apart.main.summary;
}

TEST(KinetoVerdict, TooLittleInCommon) {
  const model::Verdict verdict = Decide({{Numbered(5)}, {Numbered(5)}});
  ExpectNoFinding(verdict);
  EXPECT_NE(verdict.main.summary.find("two calls in a row in common"), std::string::npos)
      << verdict.main.summary;
}

// PyTorch numbers the operations of a batch like the operation behind it: rank 1 begins to record
// between the two.
TEST(KinetoVerdict, ABatchCutByTheBeginningOfAWindowIsNoFinding) {
  const Call batched{.collective = "reduce_scatter_tensor_coalesced", .seq = 6};
  ExpectNoFinding(Decide(
      {{Numbered(4), Numbered(5), batched, Numbered(6), Numbered(7)}, {Numbered(6), Numbered(7)}}));
  ExpectNoFinding(Decide({{Numbered(4), Numbered(5), batched}, {Numbered(6), Numbered(7)}}));
}

// Collection may stop and go on within one trace.
TEST(KinetoVerdict, ABatchCutByAGapIsNoFinding) {
  const Call batched{.collective = "reduce_scatter_tensor_coalesced", .seq = 6};
  ExpectNoFinding(Decide({{Numbered(3), Numbered(4), batched, Numbered(6), Numbered(7)},
                          {Numbered(3), Numbered(6), Numbered(7)}}));
}

// A batch of sends and receives takes a number of the collectives at the ranks that make it.
TEST(KinetoVerdict, NumbersOfAGroupThatSendsAreNotCompared) {
  const Call broadcast{.collective = "broadcast", .seq = 8};
  const Call send{.collective = "send", .seq = 1};
  const Call elsewhere{.collective = "send", .seq = 1, .group = "1"};
  const std::vector<Call> other = {Numbered(7), broadcast};
  const model::Verdict verdict = Decide({{Numbered(7), send, Numbered(8)}, other});
  ExpectNoFinding(verdict);
  EXPECT_TRUE(Has(verdict.main.evidence.not_visible, "1 process group that also sends"));
  const model::Verdict behind = Decide({{Numbered(7), send, Numbered(8)}, {Numbered(7)}});
  EXPECT_EQ(behind.main.summary.find("recorded nothing"), std::string::npos) << behind.main.summary;
  const model::Verdict twin = Decide({{Numbered(7), elsewhere, Numbered(8)}, other});
  EXPECT_EQ(twin.main.check, "mismatch-kind");
  EXPECT_FALSE(Has(twin.main.evidence.not_visible, "that also sends"));
}

TEST(KinetoVerdict, GroupsOfOneNameAreToldApartByTheirRanks) {
  const Call pair{.seq = 2, .group = "1", .ranks = "\"[0, 1]\""};
  Call other{.collective = "broadcast", .seq = 2, .group = "1", .ranks = "\"[2, 3]\""};
  const Call first{.seq = 1, .group = "1", .ranks = "\"[0, 1]\""};
  Call others{.seq = 1, .group = "1", .ranks = "\"[2, 3]\""};
  ExpectNoFinding(Decide({{first, pair}, {first, pair}, {others, other}, {others, other}}));
  other.ranks = others.ranks = "\"[0, 1]\"";
  EXPECT_EQ(Decide({{first, pair}, {others, other}}).main.check, "mismatch-kind");
}

TEST(KinetoVerdict, WithoutNumbersItOnlySaysWhereOrdersPart) {
  const auto call = [](const char* name) { return Call{.collective = name, .seq = -1}; };
  const model::Verdict verdict =
      Decide({{call("allreduce"), call("broadcast")}, {call("allreduce"), call("allreduce")}});
  ExpectNoFinding(verdict);
  EXPECT_NE(verdict.main.summary.find("part at operation 2"), std::string::npos)
      << verdict.main.summary;
  EXPECT_TRUE(Has(verdict.main.evidence.not_visible, "Seq"));
  const model::Verdict equal = Decide({{call("allreduce")}, {call("allreduce")}});
  EXPECT_EQ(equal.main.summary.find("part at"), std::string::npos) << equal.main.summary;
}

TEST(KinetoVerdict, NamesHowManyRanksLeftNoTrace) {
  const std::string text = Kineto(0, {{.ranks = "\"[0, 1, 2, 3]\"", .size = 4}}, 4);
  std::vector<RankTrace> traces;
  traces.push_back(Parsed(text));
  const model::Verdict verdict = DecideRankTraces(std::move(traces));
  ExpectNoFinding(verdict);
  EXPECT_EQ(verdict.main.evidence.ranks_expected, 4);
  EXPECT_TRUE(Has(verdict.main.evidence.not_visible, "3 of 4 ranks left no trace"));
  EXPECT_NE(verdict.main.summary.find("One trace alone"), std::string::npos);
}

// --- What others need all of

TEST(WholeOperations, OfAllMembersAndNoOthers) {
  const auto traces = [](const std::vector<int>& ranks) {
    std::vector<RankTrace> all;
    for (const int rank : ranks) all.push_back(Parsed(Kineto(rank, {Numbered(1), Numbered(2)}, 9)));
    return all;
  };
  const auto whole = [](const std::vector<RankTrace>& of) {
    const WholeOperations found = FindWholeOperations(of);
    EXPECT_EQ(found.operations.size(), 1u);  // without the number before, #1 may be of a batch
    EXPECT_EQ(found.left_out, 1u);
    if (found.operations.empty()) return false;
    const WholeOperation& operation = found.operations.front();
    EXPECT_EQ(operation.sequence, 2);
    return AtAllMembers(operation, *found.groups.at(operation.group));
  };
  EXPECT_TRUE(whole(traces({0, 1})));
  EXPECT_FALSE(whole(traces({0})));
  EXPECT_FALSE(whole(traces({0, 5})));  // 5 is no member of [0, 1]
  EXPECT_FALSE(whole(traces({0, 1, 5})));
}

TEST(WholeOperations, LeaveOutWhatMembersDoNotAgreeOn) {
  std::vector<RankTrace> traces;
  for (const int rank : {0, 1}) {
    traces.push_back(
        Parsed(Kineto(rank, {Numbered(1), {.seq = 2, .elements = 8 + rank}, Numbered(3)})));
  }
  const WholeOperations found = FindWholeOperations(traces);
  ASSERT_EQ(found.operations.size(), 1u);
  EXPECT_EQ(found.operations.front().sequence, 3);
}

TEST(WholeOperations, CallsOfNccl) {
  FlightEntry entry;
  entry.operation = "_reduce_scatter_base";
  entry.type = "BFloat16";
  entry.elements_in = 64;
  entry.elements_out = 16;
  const std::optional<NcclCall> call = NcclCallOf(entry);
  ASSERT_TRUE(call.has_value());
  EXPECT_EQ(call->call, model::Call::kReduceScatter);
  EXPECT_EQ(call->count, 16u);
  EXPECT_EQ(call->datatype, 9);
  entry.operation = "all_gather";  // members may pass different sizes
  EXPECT_FALSE(NcclCallOf(entry).has_value());
  entry.operation = "_reduce_scatter_base";
  entry.type = "ComplexFloat";
  EXPECT_FALSE(NcclCallOf(entry).has_value());
}

// --- Chakra

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string Delimited(int field, const std::string& bytes) {
  return Varint(static_cast<uint64_t>(field) << 3 | 2) + Varint(bytes.size()) + bytes;
}
std::string Number(int field, uint64_t value) {
  return Varint(static_cast<uint64_t>(field) << 3) + Varint(value);
}
std::string Attribute(const std::string& name, const std::string& value) {
  return Delimited(10, Delimited(1, name) + value);
}
std::string Framed(const std::string& message) { return Varint(message.size()) + message; }

struct Node {
  int type = 7;  // COMM_COLL_NODE
  int comm_type = 0;
  uint64_t bytes = 4096;
  std::string group = "tp";
  int seq = -1;
  std::string state = "";
};

std::string Et(const std::vector<Node>& nodes) {
  std::string text = Framed(Delimited(1, "0.0.4"));
  uint64_t id = 0;
  for (const Node& node : nodes) {
    text +=
        Framed(Number(1, ++id) + Delimited(2, "n") + Number(3, static_cast<uint64_t>(node.type)) +
               Attribute("is_cpu_op", Number(27, 0)) +
               (node.group.empty() ? "" : Attribute("pg_name", Delimited(29, node.group))) +
               Attribute("comm_size", Number(9, node.bytes)) +
               Attribute("comm_type", Number(9, static_cast<uint64_t>(node.comm_type))) +
               (node.seq < 0 ? "" : Attribute("seq", Number(13, static_cast<uint64_t>(node.seq)))) +
               (node.state.empty() ? "" : Attribute("state", Delimited(29, node.state))));
  }
  return text;
}

std::vector<RankTrace> EtJob(const std::vector<std::vector<Node>>& ranks) {
  std::vector<RankTrace> traces;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::string text = Et(ranks[rank]);
    StatusOr<RankTrace> trace = ParseChakraTrace(PullText(text));
    EXPECT_TRUE(trace.ok()) << trace.status().ToString();
    if (!trace.ok()) continue;
    trace->dump.rank = static_cast<int>(rank);
    traces.push_back(std::move(*trace));
  }
  return traces;
}

std::string EtRefused(const std::string& text) {
  const StatusOr<RankTrace> trace = ParseChakraTrace(PullText(text));
  EXPECT_FALSE(trace.ok());
  return trace.ok() ? "" : trace.status().message();
}

TEST(Chakra, ReadsCollectivesAndCountsTransfers) {
  const std::vector<RankTrace> traces =
      EtJob({{{.comm_type = 7, .seq = 3, .state = "done"}, {.type = 4}, {.type = 5}, {.type = 6}}});
  const RankTrace& trace = traces.front();
  ASSERT_EQ(trace.dump.entries.size(), 1u);
  const FlightEntry& entry = trace.dump.entries.front();
  EXPECT_EQ(entry.operation, "reduce_scatter");
  EXPECT_EQ(entry.sequence, 3);
  EXPECT_EQ(entry.elements_in, 4096);
  EXPECT_TRUE(entry.in_bytes);
  EXPECT_TRUE(entry.completed);
  EXPECT_EQ(trace.transfers, 2u);
  EXPECT_TRUE(trace.numbered);
}

TEST(Chakra, RefusesByByteAndNode) {
  EXPECT_NE(EtRefused("").find("empty"), std::string::npos);
  const std::string good = Et({{}, {}});
  EXPECT_NE(EtRefused(good.substr(0, good.size() - 3)).find("node 2: it ends within a message"),
            std::string::npos);
  EXPECT_NE(EtRefused(Framed(Number(1, 1) + Number(3, 7))).find("GlobalMetadata"),
            std::string::npos);
  EXPECT_NE(EtRefused(Framed(Delimited(1, "0.0.4")) + Framed("\x0c")).find("node 1: this is no"),
            std::string::npos);
  EXPECT_NE(EtRefused("\xff\xff\xff\xff\xff\xff").find("no length"), std::string::npos);
  // A length of 256 MiB is refused before memory is taken.
  EXPECT_NE(EtRefused(Varint(256u << 20)).find("268435456 bytes"), std::string::npos);
  EXPECT_NE(EtRefused(Et({{.group = std::string(300, 'g')}})).find("node 1: its pg_name"),
            std::string::npos);
}

TEST(ChakraVerdict, NumbersOfGordianProveAMismatch) {
  const auto job = [](const Node& second) {
    return DecideRankTraces(EtJob({{{.seq = 0}, {.seq = 1}}, {{.seq = 0}, second}}));
  };
  EXPECT_EQ(job({.bytes = 64, .seq = 1}).main.check, "mismatch-count");
  EXPECT_NE(job({.bytes = 64, .seq = 1}).main.summary.find("64 bytes"), std::string::npos);
  EXPECT_EQ(job({.comm_type = 5, .seq = 1}).main.check, "mismatch-kind");
  ExpectNoFinding(job({.seq = 1}));
}

TEST(ChakraVerdict, OrderAloneProvesNone) {
  const model::Verdict verdict = DecideRankTraces(EtJob({{{}, {.comm_type = 5}}, {{}, {}}}));
  ExpectNoFinding(verdict);
  EXPECT_NE(verdict.main.summary.find("part at operation 2"), std::string::npos)
      << verdict.main.summary;
  const model::Verdict fewer = DecideRankTraces(EtJob({{{}, {}}, {{}}}));
  ExpectNoFinding(fewer);
  EXPECT_NE(fewer.main.summary.find("Rank 1 recorded at most 1 operation on tp, others 2"),
            std::string::npos)
      << fewer.main.summary;
}

// --- Files

class Files : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "rank_traces." + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << bytes;
    return folder_ + "/" + name;
  }
  std::string WritePacked(const std::string& name, const std::string& bytes) {
    const std::string path = folder_ + "/" + name;
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return path;
  }
  StatusOr<std::vector<RankTrace>> Read() {
    const StatusOr<SourceFiles> files = FindSources(folder_);
    if (!files.ok()) return files.status();
    return ReadRankTraces(*files);
  }
  std::string ReadError() {
    const StatusOr<std::vector<RankTrace>> traces = Read();
    EXPECT_FALSE(traces.ok());
    return traces.ok() ? "" : traces.status().message();
  }

  std::string folder_;
};

TEST_F(Files, NamesOfTracesEndInTheirRank) {
  EXPECT_EQ(RankOfTraceName("/x/job.12.et", TraceFormat::kChakra), 12);
  EXPECT_EQ(RankOfTraceName("job.12.et.gz", TraceFormat::kChakra), 12);
  EXPECT_EQ(RankOfTraceName("job.et", TraceFormat::kChakra), -1);
  EXPECT_EQ(RankOfTraceName("a_Rank-3_step10.json.gz", TraceFormat::kKineto), 3);
  EXPECT_EQ(RankOfTraceName("host_4711.1700000000.pt.trace.json", TraceFormat::kKineto), -1);
  EXPECT_EQ(RankOfTraceName("rank99999999999.json", TraceFormat::kKineto), -1);
}

TEST_F(Files, PlainAndPackedOnes) {
  Write("host_1.1.pt.trace.json", Kineto(0, {{}}));
  WritePacked("host_2.1.pt.trace.json.gz", Kineto(1, {{}}));
  const StatusOr<std::vector<RankTrace>> traces = Read();
  ASSERT_TRUE(traces.ok()) << traces.status().ToString();
  ASSERT_EQ(traces->size(), 2u);
  EXPECT_EQ(traces->at(1).dump.rank, 1);
}

TEST_F(Files, ChakraPacked) {
  Write("g.0.et", Et({{}}));
  WritePacked("g.1.et.gz", Et({{}}));
  const StatusOr<std::vector<RankTrace>> traces = Read();
  ASSERT_TRUE(traces.ok()) << traces.status().ToString();
  EXPECT_EQ(traces->size(), 2u);
}

TEST_F(Files, RefusesByName) {
  const std::string one = Write("a.json", Kineto(0, {{}}));
  Write("b.json", Kineto(0, {{}}));
  EXPECT_NE(ReadError().find("both of rank 0"), std::string::npos);
  Write("b.json", Kineto(1, {{}}, 4));
  EXPECT_NE(ReadError().find("b.json is of a job of 4 ranks"), std::string::npos);
  Write("b.json", Kineto(1, {{}}).substr(0, 600));
  EXPECT_NE(ReadError().find("b.json cannot be read as a trace of PyTorch's profiler: byte"),
            std::string::npos);
  Write("b.json", R"({"schemaVersion": 1, "traceEvents": []})");
  EXPECT_NE(ReadError().find("b.json does not say its rank"), std::string::npos);
  Write("b.json", "");
  Write("c.3.et", Et({{}}));
  EXPECT_NE(ReadError().find("PyTorch's profiler and of Chakra"), std::string::npos);
  EXPECT_EQ(FindSources(std::vector<std::string>{one, one})->paths.size(), 2u);
  EXPECT_FALSE(FindSources(std::vector<std::string>{one, folder_ + "/b.json"}).ok());
}

TEST_F(Files, WithoutAnyCollectiveThatCanBeCompared) {
  Write("a.json", Kineto(0, {{.group = ""}}));
  EXPECT_NE(ReadError().find("names its process group"), std::string::npos);
  Write("a.json", R"([{"name": "aten::ones", "ph": "X", "ts": 4, "args": {}}])");
  EXPECT_NE(ReadError().find("a.json"), std::string::npos);
}

TEST_F(Files, DamagedAndOverfullPackedOnesAreRefused) {
  const std::string path = WritePacked("a.json.gz", Kineto(0, {{}}));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 9);
  EXPECT_NE(ReadError().find("cannot unpack"), std::string::npos);
  // 40 MiB of spaces pack into some 40 KiB.
  WritePacked("a.json.gz", "{\"traceEvents\": [" + std::string(40u << 20, ' '));
  EXPECT_NE(ReadError().find("unpacks to more than"), std::string::npos);
}

TEST(RankTraceFuzzer, BytesMadeFromSeeds) {
  const std::string seeds[] = {Kineto(0, {Numbered(1), Numbered(2)}),
                               Et({{.seq = 0}, {.comm_type = 5, .seq = 1}, {}})};
  std::mt19937 random(7);
  for (const std::string& seed : seeds) {
    for (int round = 0; round < 3000; ++round) {
      std::string bytes = seed;
      for (uint32_t changes = random() % 4 + 1; changes > 0; --changes) {
        const size_t at = random() % bytes.size();
        switch (random() % 3) {
          case 0:
            bytes[at] = static_cast<char>(random());
            break;
          case 1:
            bytes.resize(at + 1);
            break;
          default:
            bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 40));
        }
      }
      fuzz::FuzzRankTrace(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    }
  }
}

}  // namespace
}  // namespace gordian::importers
