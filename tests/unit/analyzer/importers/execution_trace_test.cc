// Traces of PyTorch's ExecutionTraceObserver: what a call in them says, where a list may end, and
// what is refused. real_traces.py reads real ones.
#include "analyzer/importers/execution_trace.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "analyzer/importers/rank_traces.h"
#include "tests/fuzz/fuzz_entry.h"

namespace gordian::importers {
namespace {

constexpr char kBeginning[] = R"({"schema": "1.1.1-chakra.0.0.4", "pid": 7, "start_ts": 1,
  "nodes": [)";
constexpr char kEnd[] = "\n  ],\n  \"finish_ts\": 2\n}";

struct Call {
  std::string collective = "allreduce";
  int seq = 1;  // -1: none
  int rank_or_root = 0;
  int elements = 1024;
  int start = 0, stride = 1, size = 2;
  std::string group = "0";
};

std::string Attribute(const std::string& name, const std::string& value) {
  return R"(, {"name": ")" + name + R"(", "type": "any", "value": )" + value + "}";
}

std::string Node(const Call& call) {
  const std::string numbered = call.seq < 0 ? "" : "[" + std::to_string(call.seq) + ", false], ";
  return R"({"id": 5, "name": "record_param_comms", "ctrl_deps": 4, "inputs": {"values": [)"
         R"([[15, 16, 0, 5, 4, "cuda:0"]], )" +
         numbered + "[\"" + call.group + R"(", "means"], )" + std::to_string(call.rank_or_root) +
         ", \"" + call.collective +
         R"(", [], [], 0, 1, 4], "shapes": []}, "attrs": [)"
         R"({"name": "rf_id", "type": "uint64", "value": 11})" +
         Attribute("collective_name", "\"" + call.collective + "\"") +
         Attribute("dtype", "\"Float\"") +
         Attribute("in_msg_nelems", std::to_string(call.elements)) +
         Attribute("out_msg_nelems", std::to_string(call.elements)) +
         Attribute("global_rank_start", std::to_string(call.start)) +
         Attribute("global_rank_stride", std::to_string(call.stride)) +
         Attribute("pg_name", "\"" + call.group + "\"") + Attribute("pg_desc", "\"means\"") +
         Attribute("pg_size", std::to_string(call.size)) + "]}";
}

std::string Nodes(const std::vector<Call>& calls) {
  std::string text;
  for (const Call& call : calls) text += (text.empty() ? "" : ",") + Node(call);
  return text;
}

RankTrace Parsed(const std::string& text) {
  StatusOr<RankTrace> trace = ParseExecutionTrace(PullText(text));
  EXPECT_TRUE(trace.ok()) << trace.status().ToString() << "\n" << text;
  return trace.ok() ? std::move(*trace) : RankTrace();
}

std::string Refused(const std::string& text) {
  const StatusOr<RankTrace> trace = ParseExecutionTrace(PullText(text));
  EXPECT_FALSE(trace.ok()) << text;
  return trace.ok() ? "" : trace.status().message();
}

TEST(ExecutionTrace, ReadsWhatACallIs) {
  const RankTrace trace = Parsed(
      kBeginning +
      Nodes({{.collective = "broadcast", .seq = 4, .rank_or_root = 0, .start = 2, .stride = 3},
             {.seq = 5, .rank_or_root = 1, .start = 2, .stride = 3},
             {.collective = "send", .seq = 1, .group = "p2p"},
             {.collective = "wait", .seq = -1},
             {.collective = "barrier", .seq = -1}}) +
      kEnd);
  EXPECT_FALSE(trace.cut);
  EXPECT_TRUE(trace.numbered);
  EXPECT_TRUE(trace.ranked);
  EXPECT_EQ(trace.dump.rank, 5);  // the second of 2 and 5; the root of a broadcast says nothing
  EXPECT_EQ(trace.transfers, 1u);
  ASSERT_EQ(trace.dump.entries.size(), 2u);
  const FlightEntry& entry = trace.dump.entries.back();
  EXPECT_EQ(entry.operation, "all_reduce");
  EXPECT_EQ(entry.sequence, 5);
  EXPECT_EQ(entry.elements_in, 1024);
  EXPECT_EQ(entry.type, "Float");
  EXPECT_EQ(trace.dump.groups.at(entry.group).ranks, (std::vector<int>{2, 5}));
}

TEST(ExecutionTrace, ReadsGroupsWithoutADistance) {
  const std::string init =
      R"({"id": 3, "name": "## process_group:init ##", "inputs": {"values": ["[)"
      R"({\"pg_name\": \"0\", \"ranks\": [], \"group_size\": 8},)"
      R"({\"pg_name\": \"7\", \"ranks\": [0, 1, 5], \"group_size\": 3}]"]}},)";
  const RankTrace trace =
      Parsed(kBeginning + init +
             Nodes({{.rank_or_root = 2, .stride = 0, .size = 3, .group = "7"}}) + kEnd);
  EXPECT_EQ(trace.world, 8);
  EXPECT_EQ(trace.dump.rank, 5);
}

TEST(ExecutionTrace, ACallWithoutItsNumberLeavesTheTraceUnnumbered) {
  EXPECT_FALSE(Parsed(kBeginning + Nodes({{.seq = 4}, {.seq = -1}}) + kEnd).numbered);
}

TEST(ExecutionTrace, MayEndBetweenTwoCalls) {
  const std::string calls = kBeginning + Nodes({{.seq = 4}, {.seq = 5}});
  for (const char* const end : {"", ",", ",\n      "}) {
    const RankTrace trace = Parsed(calls + end);
    EXPECT_TRUE(trace.cut);
    EXPECT_EQ(trace.dump.entries.size(), 2u);
  }
  for (const std::string& other :
       {calls.substr(0, calls.size() - 1), calls + "]", calls + ",{", calls + "}", calls + ",]}",
        calls + kEnd + "x", std::string("{\"nodes\": 3"), std::string("{"), std::string()})
    EXPECT_NE(Refused(other).find("the file was cut there"), std::string::npos) << other;
  EXPECT_NE(Refused("{}").find("it has no nodes"), std::string::npos);
}

TEST(ExecutionTrace, RefusesByNode) {
  EXPECT_NE(Refused(kBeginning + Nodes({{.rank_or_root = 0}, {.rank_or_root = 1}}) + kEnd)
                .find("node 2 is of rank 1, nodes before it are of rank 0"),
            std::string::npos);
  EXPECT_NE(Refused(kBeginning + Nodes({{.group = std::string(300, 'g')}}) + kEnd)
                .find("node 1 has a name of more than 256 bytes"),
            std::string::npos);
  EXPECT_NE(Refused(std::string(kBeginning) + "7" + kEnd).find("node 1 is no object"),
            std::string::npos);
}

TEST(ExecutionTrace, ANodeIsBounded) {
  std::string numbers = "[0";
  for (int i = 0; i < (9 << 20); ++i) numbers += ",0";
  EXPECT_NE(Refused(kBeginning + numbers + "]" + kEnd).find("a node of more than 16 MiB"),
            std::string::npos);
  EXPECT_NE(Refused(kBeginning + std::string(100, '[')).find("nests deeper"), std::string::npos);
}

TEST(ExecutionTrace, AMismatchAndItsInnocentTwin) {
  for (const bool guilty : {true, false}) {
    std::vector<RankTrace> traces;
    for (int rank = 0; rank < 3; ++rank)
      traces.push_back(
          Parsed(kBeginning + Nodes({{.seq = 4, .rank_or_root = rank, .size = 3},
                                     {.collective = guilty && rank == 1 ? "broadcast" : "allreduce",
                                      .seq = 5,
                                      .rank_or_root = rank,
                                      .size = 3}})));
    const model::Verdict verdict = DecideRankTraces(std::move(traces));
    EXPECT_EQ(verdict.main.check, guilty ? "mismatch-kind" : "evidence-missing");
    EXPECT_EQ(verdict.main.culprit_ranks, guilty ? std::vector<int>{1} : std::vector<int>{});
  }
}

TEST(ExecutionTrace, AnyBytesAreReadOrRefused) {
  const std::string seed = kBeginning + Nodes({{.seq = 4}, {.seq = 5}}) + kEnd;
  std::mt19937_64 random(7);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = seed;
    for (uint64_t k = random() % 4 + 1; k > 0; --k) {
      const size_t at = random() % bytes.size();
      if (random() % 2 == 0) {
        bytes[at] = static_cast<char>(random());
      } else {
        bytes.erase(at, random() % 8);
      }
      if (bytes.empty()) bytes = "x";
    }
    fuzz::FuzzRankTrace(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
}

}  // namespace
}  // namespace gordian::importers
