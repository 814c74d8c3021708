// Counts what a trace holds, without the analyzer: for tests that hold it against what the emulator
// counted by itself.  trace_count TRACE [operations]  prints one JSON object; with the second word
// also place and count of every operation.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "common/record_block.h"
#include "common/trace_file.h"
#include "proto/ring/calls.h"

namespace ring = gordian::ring;

namespace {

bool IsOperation(const std::string& symbol) {
  return std::any_of(std::begin(ring::kCalls), std::end(ring::kCalls),
                     [&symbol](const ring::CallInfo& call) {
                       return symbol == call.name && call.payload == ring::PayloadKind::kOperation;
                     });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && !(argc == 3 && std::string(argv[2]) == "operations")) {
    std::fprintf(stderr, "usage: %s TRACE [operations]\n", argv[0]);
    return 2;
  }
  auto reader = gordian::TraceReader::Open(argv[1]);
  if (!reader.ok()) {
    std::fprintf(stderr, "%s\n", reader.status().message().c_str());
    return 1;
  }
  namespace v1 = gordian::v1;
  std::map<uint32_t, std::string> names;
  std::map<std::string, uint64_t> calls;
  std::map<uint32_t, uint64_t> marks;
  std::map<uint32_t, std::pair<uint64_t, uint64_t>> orders;  // of a process: how many, the highest
  std::set<std::pair<uint32_t, uint64_t>> begun;             // (process, order)
  uint64_t records = 0, repeated = 0, nccl_calls = 0, mark_gaps = 0, rounds = 0, joined = 0;
  uint64_t clocks = 0, away = 0, back = 0, job_ended = 0, started = 0;
  nlohmann::json operations = nlohmann::json::array();
  while (const v1::TraceChunk* const chunk = (*reader)->Next()) {
    for (const v1::Event& event : chunk->events()) {
      if (event.has_call_name()) names[event.call_name().call()] = event.call_name().symbol();
      if (event.has_batch_mark()) {
        uint64_t& last = marks[event.batch_mark().node()];
        if (event.batch_mark().number() != last + 1) ++mark_gaps;
        last = event.batch_mark().number();
      }
      rounds += event.has_round();
      joined += event.has_node_joined();
      clocks += event.has_clock_offset();
      job_ended += event.has_job_ended();
      started += event.has_analyzer_started();
      if (event.has_node_state()) {
        away += event.node_state().kind() == v1::NODE_STATE_KIND_AWAY;
        back += event.node_state().kind() == v1::NODE_STATE_KIND_BACK;
      }
      const uint32_t process = event.records().process();
      gordian::ForEachRecord(event.records(), [&](const ring::Record& record) {
        ++records;
        const std::string& name = names[record.call];
        const bool call =
            record.kind == ring::RecordKind::kBegin || record.kind == ring::RecordKind::kPoint;
        if (argc == 3 && call && IsOperation(name)) {
          const ring::OperationPayload& operation = record.payload.operation;
          operations.push_back({operation.sequence, operation.count});
        }
        if (!begun.insert({process, record.order}).second) ++repeated;
        auto& [count, highest] = orders[process];
        ++count;
        highest = std::max(highest, record.order);
        if (call && name.rfind("nccl", 0) == 0) {
          ++nccl_calls;
          ++calls[name];
        }
      });
    }
  }
  uint64_t missing = 0;  // every record of a process has a number, from 1 without gaps
  for (const auto& [process, seen] : orders)
    missing += seen.second - std::min(seen.second, seen.first);
  nlohmann::json out = {{"records", records},
                        {"repeated", repeated},
                        {"missing", missing},
                        {"nccl_calls", nccl_calls},
                        {"calls", calls},
                        {"mark_gaps", mark_gaps},
                        {"rounds", rounds},
                        {"nodes", joined},
                        {"clocks", clocks},
                        {"away", away},
                        {"back", back},
                        {"job_ended", job_ended},
                        {"analyzer_started", started},
                        {"ending", (*reader)->Describe()}};
  if (argc == 3) out["operations"] = std::move(operations);
  std::printf("%s\n", out.dump().c_str());
  return 0;
}
