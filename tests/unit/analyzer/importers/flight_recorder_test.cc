#include "analyzer/importers/flight_recorder.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

#include "analyzer/importers/flight_verdict.h"
#include "analyzer/importers/plain_data.h"
#include "tests/fuzz/fuzz_entry.h"

namespace gordian::importers {
namespace {

using namespace std::string_literals;  // NOLINT: pickles hold zeros
using Kind = PlainData::Kind;

PlainData Pickle(const std::string& bytes) {
  StatusOr<PlainData> data = ReadPickle(bytes);
  EXPECT_TRUE(data.ok()) << data.status().ToString();
  return data.ok() ? std::move(*data) : PlainData();
}

std::string Refused(const std::string& bytes) {
  const StatusOr<PlainData> data = ReadPickle(bytes);
  EXPECT_FALSE(data.ok());
  return data.ok() ? "" : data.status().message();
}

TEST(Pickle, Numbers) {
  EXPECT_EQ(Pickle("\x80\x02K\xff."s).root().AsInt(), 255);
  EXPECT_EQ(Pickle("\x80\x02J\xff\xff\xff\xff."s).root().AsInt(), -1);
  EXPECT_EQ(Pickle("\x80\x02M\x00\x80."s).root().AsInt(), 32768);
  EXPECT_EQ(Pickle("\x80\x02\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80."s).root().AsInt(), INT64_MIN);
  EXPECT_EQ(Pickle("\x80\x02\x8a\x00."s).root().AsInt(), 0);
  EXPECT_EQ(Pickle("I01\n.").root().AsBool(), true);
  EXPECT_EQ(Pickle("L-12L\n.").root().AsInt(), -12);
  // 2**64 is no number of 64 bits.
  EXPECT_EQ(Pickle("\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."s).root().kind(),
            Kind::kFloat);
}

TEST(Pickle, WhatIsNamedTwiceIsHeldOnce) {
  // [a, a] with a = [], then a.append(1): both see it.
  const PlainData data = Pickle(
      "\x80\x02]q\x00(]q\x01h\x01K\x01"
      "ae."s);
  const PlainData::View root = data.root();
  ASSERT_EQ(root.size(), 2u);
  EXPECT_EQ(root[size_t{0}].size(), 1u);
  EXPECT_EQ(root[size_t{1}].size(), 1u);
}

TEST(Pickle, AListInItselfIsOnlyANumber) {
  const PlainData data = Pickle(
      "\x80\x02]q\x00h\x00"
      "a."s);
  EXPECT_EQ(data.root()[size_t{0}][size_t{0}][size_t{0}].size(), 1u);
  EXPECT_EQ(data.nodes(), 1u);
}

TEST(Pickle, NothingIsImportedOrCalled) {
  EXPECT_NE(Refused("cos\nsystem\n(S'true'\ntR.").find("GLOBAL"), std::string::npos);
  EXPECT_NE(Refused("\x80\x04\x8c\x02os\x8c\x06system\x93."s).find("STACK_GLOBAL"),
            std::string::npos);
  EXPECT_NE(Refused("\x80\x02)\x81."s).find("NEWOBJ"), std::string::npos);
  EXPECT_NE(Refused("\x80\x02Nb."s).find("BUILD"), std::string::npos);
  EXPECT_NE(Refused("\x80\x02NQ."s).find("BINPERSID"), std::string::npos);
  EXPECT_NE(Refused("\x80\x06N."s).find("protocol 6"), std::string::npos);
}

TEST(Pickle, BrokenOnesAreRefused) {
  for (const std::string& bytes : {""s, "."s, "\x80\x02K"s,
                                   "\x80\x02X\xff\xff\xff\x7f"
                                   "a."s,
                                   "t."s, "("s, "(."s, "\x80\x02Na."s,
                                   "\x80\x02}K\x01"
                                   "a."s,
                                   "\x80\x02NN."s, "h\x07."s, "\x80\x02]}(K\x01u."s}) {
    EXPECT_FALSE(ReadPickle(bytes).ok()) << bytes;
  }
}

TEST(Json, TheSameShape) {
  const StatusOr<PlainData> data = ReadJson(R"({"a": [1, "2", null, true, 1.5], "b": {"c": -3}})");
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(data->root()["a"][size_t{1}].AsInt(), 2);
  EXPECT_EQ(data->root()["b"]["c"].AsInt(), -3);
  EXPECT_TRUE(data->root()["b"]["x"]["y"].is_null());
  EXPECT_FALSE(ReadJson("{\"a\": ").ok());
}

// Dumps in words: open[i] is "group seq operation".
struct Words {
  std::string group;
  int64_t sequence;
  std::string operation = "all_reduce";
  int64_t elements = 8;
};

std::vector<FlightDump> Job(const std::map<std::string, std::vector<int>>& groups,
                            const std::vector<std::vector<Words>>& open,
                            const std::vector<std::map<std::string, FlightStatus>>& status = {}) {
  std::vector<FlightDump> dumps(open.size());
  for (size_t r = 0; r < open.size(); ++r) {
    FlightDump& dump = dumps[r];
    dump.rank = static_cast<int>(r);
    dump.version = "2.9";
    std::map<std::string, std::string> keys;
    for (const auto& [name, ranks] : groups) {
      const FlightGroup group{name, "", ranks};
      keys[name] = group.Key();
      dump.groups[group.Key()] = group;
    }
    for (const Words& words : open[r]) {
      FlightEntry entry;
      entry.record = static_cast<int64_t>(dump.entries.size());
      entry.group = keys[words.group];
      entry.sequence = words.sequence;
      entry.operation = words.operation;
      entry.elements_in = words.elements;
      entry.type = "Float";
      dump.entries.push_back(entry);
    }
    if (r < status.size()) {
      for (const auto& [name, s] : status[r]) dump.status[keys[name]] = s;
    }
  }
  return dumps;
}

TEST(FlightVerdict, WhoHasNotCalledAndWaitsForNobody) {
  const model::Verdict verdict = DecideFlightDumps(
      Job({{"0", {0, 1, 2}}}, {{{"0", 7}}, {}, {{"0", 7}}}, {{}, {{"0", {6, 6}}}, {}}));
  EXPECT_EQ(verdict.main.verdict, model::VerdictKind::kRankNotJoined);
  EXPECT_EQ(verdict.main.confidence, model::Confidence::kSuspected);
  EXPECT_EQ(verdict.main.culprit_ranks, std::vector<int>{1});
  EXPECT_EQ(verdict.main.victim_ranks, (std::vector<int>{0, 2}));
}

TEST(FlightVerdict, ADumpWithoutAStatusProvesNothing) {
  const model::Verdict verdict = DecideFlightDumps(Job({{"0", {0, 1}}}, {{{"0", 7}}, {}}));
  EXPECT_EQ(verdict.main.verdict, model::VerdictKind::kInconclusive);
  EXPECT_TRUE(verdict.main.culprit_ranks.empty());
}

TEST(FlightVerdict, WhoWaitsItselfIsNoCulprit) {
  // 2 waits for 1, which waits for 0, which has called nothing.
  const model::Verdict verdict =
      DecideFlightDumps(Job({{"1", {0, 1}}, {"2", {1, 2}}}, {{}, {{"1", 4}}, {{"2", 9}}},
                            {{{"1", {3, 3}}}, {{"2", {8, 8}}}, {}}));
  EXPECT_EQ(verdict.main.culprit_ranks, std::vector<int>{0});
  EXPECT_EQ(verdict.main.victim_ranks, (std::vector<int>{1, 2}));
}

TEST(FlightVerdict, OppositeOrdersAreACircle) {
  const model::Verdict verdict =
      DecideFlightDumps(Job({{"1", {0, 1}}, {"2", {0, 1}}}, {{{"1", 4}}, {{"2", 9}}},
                            {{{"2", {8, 8}}}, {{"1", {3, 3}}}}));
  EXPECT_EQ(verdict.main.verdict, model::VerdictKind::kDeadlock);
  EXPECT_EQ(verdict.main.confidence, model::Confidence::kSuspected);
  EXPECT_EQ(verdict.main.culprit_ranks, (std::vector<int>{0, 1}));
  EXPECT_EQ(verdict.main.cycle.size(), 2u);
}

// Those that wait in one operation do not wait for each other: each has called it, behind nothing.
TEST(FlightVerdict, TheOneOfManyThatDepartsIsTheCulprit) {
  const std::map<std::string, FlightStatus> rest = {{"2", {8, 8}}};
  const model::Verdict verdict = DecideFlightDumps(
      Job({{"1", {0, 1, 2, 3}}, {"2", {0, 1, 2, 3}}},
          {{{"1", 4}}, {{"1", 4}}, {{"2", 9}}, {{"1", 4}}}, {rest, rest, {{"1", {3, 3}}}, rest}));
  EXPECT_EQ(verdict.main.verdict, model::VerdictKind::kDeadlock);
  EXPECT_EQ(verdict.main.culprit_ranks, std::vector<int>{2});
  EXPECT_EQ(verdict.main.victim_ranks, (std::vector<int>{0, 1, 3}));
  ASSERT_EQ(verdict.main.cycle.size(), 2u);
  EXPECT_EQ(verdict.main.cycle.front().waits_for_rank, 2);
}

TEST(FlightVerdict, WhoLeftNoDumpIsNamedAndNotBlamed) {
  std::vector<FlightDump> dumps = Job({{"0", {0, 1, 2}}}, {{{"0", 7}}, {}, {{"0", 7}}});
  dumps.erase(dumps.begin() + 1);
  const model::Verdict verdict = DecideFlightDumps(dumps);
  EXPECT_EQ(verdict.main.verdict, model::VerdictKind::kInconclusive);
  EXPECT_EQ(verdict.main.evidence.not_visible.front(), "rank 1 left no dump");
  EXPECT_EQ(verdict.main.evidence.ranks_expected, 3);
}

TEST(FlightVerdict, WhoMayWaitForAnUnseenRankIsNotBlamed) {
  // 0 waits for 1; 1 waits for 2, of which nothing is known.
  std::vector<FlightDump> dumps =
      Job({{"1", {0, 1}}, {"2", {1, 2}}}, {{{"1", 4}}, {{"2", 9}}, {}}, {{}, {{"1", {3, 3}}}, {}});
  dumps.pop_back();
  EXPECT_TRUE(DecideFlightDumps(dumps).main.culprit_ranks.empty());
}

TEST(FlightVerdict, AllCalledIsNoVerdict) {
  const model::Verdict verdict = DecideFlightDumps(Job({{"0", {0, 1}}}, {{{"0", 7}}, {{"0", 7}}}));
  EXPECT_EQ(verdict.main.verdict, model::VerdictKind::kInconclusive);
}

// 16 ranks in two tensor-parallel groups of eight and eight data-parallel pairs. All have called
// everything. The dumps of 9 and 14 begin with an operation that those of their group are done
// with.
TEST(FlightVerdict, WhoHasOpenWhatOthersHaveDoneStandsStill) {
  std::map<std::string, std::vector<int>> groups = {{"0", {}}, {"1", {}}};
  for (int rank = 0; rank < 16; ++rank) groups[rank < 8 ? "0" : "1"].push_back(rank);
  for (int rank = 0; rank < 8; ++rank) groups[std::to_string(2 + rank)] = {rank, rank + 8};
  const auto job = [&](const std::set<int>& standing) {
    std::vector<std::vector<Words>> open(16);
    for (int rank = 0; rank < 16; ++rank) {
      const std::string group = rank < 8 ? "0" : "1";
      if (standing.count(rank) > 0) open[rank].push_back({group, 40, "_all_gather_base"});
      open[rank].push_back({group, 41, "all_reduce"});
      open[rank].push_back({std::to_string(2 + rank % 8), 7, "all_reduce"});
    }
    return DecideFlightDumps(Job(groups, open));
  };
  const model::Verdict verdict = job({9, 14});
  EXPECT_EQ(verdict.main.verdict, model::VerdictKind::kStuckKernel);
  EXPECT_EQ(verdict.main.confidence, model::Confidence::kSuspected);
  EXPECT_EQ(verdict.main.culprit_ranks, (std::vector<int>{9, 14}));
  EXPECT_EQ(verdict.main.victim_ranks.size(), 14u);
  // Too few are done to tell who holds up whom, and none is ahead of another.
  EXPECT_TRUE(job({8, 9, 10, 11, 12}).main.culprit_ranks.empty());
  EXPECT_EQ(job({}).main.verdict, model::VerdictKind::kInconclusive);
  EXPECT_EQ(job({8, 9, 10, 11, 12, 13, 14, 15}).main.verdict, model::VerdictKind::kInconclusive);
}

TEST(FlightVerdict, WhatAMemberMayEndAloneProvesNothingBehindOtherWork) {
  // Rank 1 is behind in a broadcast of rank 0, whose part is done; first it waits with rank 2, and
  // no dump shows more.
  const auto job = [](bool broadcast_first) {
    std::vector<Words> behind = {{"2", 5}, {"1", 4, "broadcast"}, {"1", 5, "broadcast"}};
    if (broadcast_first) std::swap(behind[0], behind[1]);
    return DecideFlightDumps(
        Job({{"1", {0, 1}}, {"2", {1, 2}}}, {{{"1", 5, "broadcast"}}, behind, {{"2", 5}}}));
  };
  EXPECT_TRUE(job(false).main.culprit_ranks.empty());
  EXPECT_EQ(job(true).main.culprit_ranks, std::vector<int>{1});
}

TEST(FlightVerdict, ADumpThatIsOnlyLateBlamesNobody) {
  // Rank 1's watchdog has not seen the end of #7 yet, and no rank waits.
  EXPECT_TRUE(DecideFlightDumps(Job({{"0", {0, 1}}}, {{}, {{"0", 7}}}, {{{"0", {7, 7}}}, {}}))
                  .main.culprit_ranks.empty());
}

TEST(FlightVerdict, DifferentOperationsAreAMismatch) {
  const model::Verdict verdict =
      DecideFlightDumps(Job({{"0", {0, 1, 2}}}, {{{"0", 7}}, {{"0", 7}}, {{"0", 7, "broadcast"}}}));
  EXPECT_EQ(verdict.main.verdict, model::VerdictKind::kMismatch);
  EXPECT_EQ(verdict.main.culprit_ranks, std::vector<int>{2});
  const model::Verdict counts = DecideFlightDumps(
      Job({{"0", {0, 1, 2}}}, {{{"0", 7}}, {{"0", 7, "all_reduce", 9}}, {{"0", 7}}}));
  EXPECT_EQ(counts.main.culprit_ranks, std::vector<int>{1});
  // Each rank sends as much as it has.
  const model::Verdict innocent = DecideFlightDumps(
      Job({{"0", {0, 1}}}, {{{"0", 7, "all_to_all", 5}}, {{"0", 7, "all_to_all", 9}}}));
  EXPECT_NE(innocent.main.verdict, model::VerdictKind::kMismatch);
}

TEST(FlightVerdict, DifferentTypesAreAMismatchAndTwoNamesAreNot) {
  std::vector<FlightDump> dumps = Job({{"0", {0, 1}}}, {{{"0", 7}}, {{"0", 7}}});
  dumps[1].entries[0].type = "Half";
  EXPECT_EQ(DecideFlightDumps(dumps).main.check, "mismatch-type");
  // One all-gather of NCCL, into a list and into one tensor.
  EXPECT_NE(DecideFlightDumps(
                Job({{"0", {0, 1}}}, {{{"0", 7, "all_gather"}}, {{"0", 7, "_all_gather_base"}}}))
                .main.verdict,
            model::VerdictKind::kMismatch);
}

TEST(FlightRecorder, RefusesWhatIsNoDump) {
  EXPECT_FALSE(ParseFlightDump("{}").ok());
  EXPECT_FALSE(ParseFlightDump(R"({"version": "3.0", "entries": []})").ok());
  EXPECT_FALSE(
      ParseFlightDump(R"({"version": "2.4", "entries": [{"profiling_name": "nccl:all_reduce"}]})")
          .ok());
  EXPECT_TRUE(ParseFlightDump(R"({"version": "2.4", "entries": []})").ok());
}

TEST(FlightRecorder, OperationsOfABatchEndWithIt) {
  for (const bool completed : {false, true}) {
    std::string entries;
    for (const char* const name : {"nccl:send 0->1", "nccl:recv 0<-1", "nccl:coalesced"}) {
      const bool last = std::string(name) == "nccl:coalesced";
      entries +=
          std::string(entries.empty() ? "" : ", ") +
          R"({"record_id": 1, "process_group": ["0", "d"], "p2p_seq_id": 5, "is_p2p": true, )" +
          R"("collective_seq_id": 0, "profiling_name": ")" + name + R"(", "state": ")" +
          (last && completed ? "completed" : "scheduled") + "\"}";
    }
    const StatusOr<FlightDump> dump =
        ParseFlightDump(R"({"version": "2.9", "entries": [)" + entries + "]}");
    ASSERT_TRUE(dump.ok()) << dump.status().ToString();
    ASSERT_EQ(dump->entries.size(), 3u);
    for (const FlightEntry& entry : dump->entries)
      EXPECT_EQ(entry.completed, completed) << entry.operation;
  }
}

// As PyTorch 2.11 writes the end of a batch: a collective, with the op_id of the batch's last call.
TEST(FlightRecorder, TheEndOfABatchEndsWhatItWasMadeOf) {
  const auto entry = [](const std::string& name, bool p2p, int p2p_seq, int call, bool completed) {
    return R"({"record_id": )" + std::to_string(call) +
           R"(, "process_group": ["0", "d"], "collective_seq_id": 3, "p2p_seq_id": )" +
           std::to_string(p2p_seq) + R"(, "op_id": )" + std::to_string(call) + R"(, "is_p2p": )" +
           (p2p ? "true" : "false") + R"(, "profiling_name": "nccl:)" + name + R"(", "state": ")" +
           (completed ? "completed" : "scheduled") + "\"}";
  };
  const auto completed = [](const std::string& entries) {
    const StatusOr<FlightDump> dump =
        ParseFlightDump(R"({"version": "2.10", "entries": [)" + entries + "]}");
    EXPECT_TRUE(dump.ok()) << dump.status().ToString();
    std::vector<bool> states;
    if (dump.ok()) {
      for (const FlightEntry& one : dump->entries) states.push_back(one.completed);
    }
    return states;
  };
  const std::string transfers =
      entry("send 0->1", true, 5, 8, false) + ", " + entry("recv 0<-1", true, 5, 9, false);
  EXPECT_EQ(completed(transfers + ", " + entry("coalesced", false, 5, 9, true)),
            (std::vector<bool>{true, true, true}));
  EXPECT_EQ(completed(transfers + ", " + entry("coalesced", false, 5, 9, false)),
            (std::vector<bool>{false, false, false}));
  // A batch of collectives behind a send says nothing of the send.
  EXPECT_EQ(completed(entry("send 0->1", true, 5, 8, false) + ", " +
                      entry("allreduce_coalesced", false, 5, 9, false) + ", " +
                      entry("coalesced", false, 5, 9, true)),
            (std::vector<bool>{false, true, true}));
}

TEST(FlightRecorder, ACallThatHasNotReturnedIsOpen) {
  const auto completed = [](int enqueued, bool retired, const std::string& kind) {
    const StatusOr<FlightDump> dump = ParseFlightDump(
        R"({"version": "2.10", "pg_config": {"0": {"name": "0", "desc": "d", "ranks": "[0, 1]"}},)"
        R"( "pg_status": {"0": {"last_enqueued_collective": )" +
        std::to_string(enqueued) +
        R"(, "last_completed_collective": 2}}, "entries": [{"record_id": 1, "pg_id": 0,)"
        R"( "process_group": ["0", "d"], "collective_seq_id": 3, "p2p_seq_id": 3, "is_p2p": )" +
        kind + R"(, "profiling_name": "nccl:)" + (kind == "true" ? "send 0->1" : "all_reduce") +
        R"(", "state": "completed", "retired": )" + (retired ? "true" : "false") + "}]}");
    EXPECT_TRUE(dump.ok()) << dump.status().ToString();
    return dump.ok() && dump->entries.front().completed;
  };
  for (const char* const p2p : {"false", "true"}) {
    EXPECT_FALSE(completed(2, false, p2p));
    EXPECT_TRUE(completed(3, false, p2p));
    EXPECT_TRUE(completed(2, true, p2p));
  }
}

TEST(FlightRecorder, AnyBytesAreReadOrRefused) {
  const std::string seeds[] = {
      R"({"version": "2.9", "pg_config": {"0": {"name": "0", "desc": "d", "ranks": "[0, 1]"}},
          "pg_status": {"0": {"last_enqueued_collective": 3, "last_completed_collective": 2}},
          "entries": [{"record_id": 1, "pg_id": 0, "process_group": ["0", "d"], "collective_seq_id": 3,
          "p2p_seq_id": 0, "profiling_name": "nccl:all_reduce", "input_sizes": [[4, 2]], "state": "scheduled"}]})",
      "\x80\x02}q\x00(X\x07\x00\x00\x00versionX\x03\x00\x00\x00"
      "2.9X\x07\x00\x00\x00"
      "entries](}(X\x0e\x00\x00\x00"
      "profiling_nameX\x04\x00\x00\x00sendX\x06\x00\x00\x00seq_idK\x05ueu."s};
  std::mt19937_64 random(7);
  for (const std::string& seed : seeds) {
    fuzz::FuzzFlightDump(reinterpret_cast<const uint8_t*>(seed.data()), seed.size());
    for (int i = 0; i < 20000; ++i) {
      std::string bytes = seed;
      for (uint64_t k = random() % 4 + 1; k > 0; --k) {
        const size_t at = random() % bytes.size();
        switch (random() % 3) {
          case 0:
            bytes[at] = static_cast<char>(random());
            break;
          case 1:
            bytes.erase(at, random() % 8);
            break;
          default:
            bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 16));
            break;
        }
        if (bytes.empty()) bytes = "x";
      }
      fuzz::FuzzFlightDump(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    }
  }
}

}  // namespace
}  // namespace gordian::importers
