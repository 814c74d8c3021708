// Protobuf events -> facts for the wait model. The only place where the one becomes the other.
//
// Events come from outside (a collector, a file): an enum out of range, an impossible size or
// number or an unknown process never reaches the model. What cannot be translated is dropped and
// counted; what is merely too long is cut.
#ifndef GORDIAN_ANALYZER_SERVER_GRAPH_EVENTS_H_
#define GORDIAN_ANALYZER_SERVER_GRAPH_EVENTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/graph/job_model.h"
#include "analyzer/server/plain_events.h"
#include "gordian/v1/event.pb.h"

namespace gordian::server {

// Process numbers are unique at one node. Those of a job: node k's start at k times this.
inline constexpr uint32_t kProcessesOfNode = 1u << 20;

// Not thread-safe.
// Times of nodes become times of the analyzer by the ClockOffset that stands before them.
class GraphEvents {
 public:
  // `model` must outlive this object.
  explicit GraphEvents(graph::JobModel* model) : model_(model) {}

  // Translates one event and hands it to the model. Returns false when it was dropped.
  bool OnEvent(const v1::Event& event);
  // The same for what was read without protobuf.
  bool OnRecord(const plain::CallRecord& record) { return Counted(TakeRecord(record)); }
  bool OnRound(const plain::Round& round) { return Counted(TakeRound(round)); }

  // Each process and record is told to these besides, right after the model.
  void Tell(std::function<void(const graph::ProcessInfo&)> process,
            std::function<void(const graph::CallRecord&)> record) {
    tell_process_ = std::move(process);
    tell_record_ = std::move(record);
  }
  // The same for rounds, before the model takes them.
  void TellRounds(std::function<void(const graph::Round&)> round) {
    tell_round_ = std::move(round);
  }

  // Symbol of a call number; empty when no CallName told.
  const std::string& Symbol(uint32_t call) const;

  uint64_t records() const { return records_; }  // CallRecords handed to the model
  uint64_t rounds() const { return rounds_; }
  uint64_t dropped() const { return dropped_; }  // events that made no sense
  uint64_t unnamed() const { return unnamed_; }  // records of calls that no CallName named

 private:
  struct NamedCall {
    std::string symbol;
    graph::Call call = graph::Call::kOther;
  };

  bool OnCallName(const v1::CallName& name);
  bool OnClockOffset(const v1::ClockOffset& clock);
  void OnNodeState(const v1::NodeState& state);
  // A time of this process's node, in the analyzer's clock. 0 stays 0: none.
  uint64_t OurTime(uint32_t process, uint64_t time_ns) const;
  bool OnProcessStarted(const v1::ProcessStarted& started);
  bool OnProcessEnded(const v1::ProcessEnded& ended);
  // Of v1's messages and of plain's, which read alike.
  template <typename CallRecord>
  bool TakeRecord(const CallRecord& record);
  template <typename Round>
  bool TakeRound(const Round& round);
  template <typename CallRecord>
  bool TranslatePayload(const CallRecord& record, graph::CallRecord* out);
  template <typename ProcessState>
  bool TranslateProcessState(const ProcessState& state, graph::ProcessState* out) const;
  bool Counted(bool understood) {
    if (!understood) ++dropped_;
    return understood;
  }
  graph::Call Meaning(uint32_t call) const;
  void Learn(uint32_t call, graph::Call meaning);  // unless the symbol told already

  graph::JobModel* model_;
  std::function<void(const graph::ProcessInfo&)> tell_process_;
  std::function<void(const graph::CallRecord&)> tell_record_;
  std::function<void(const graph::Round&)> tell_round_;
  std::vector<NamedCall> calls_;                  // by call number
  std::unordered_map<uint32_t, bool> processes_;  // known ones; true: alive
  std::unordered_map<uint32_t, int64_t> clocks_;  // by node; none: its clock is ours
  // The known process whose record came last, since most come in runs; 0: none.
  uint32_t latest_ = 0;
  bool job_ended_ = false;
  graph::CallRecord scratch_;  // reused, so that a record costs no allocation
  uint64_t last_round_ = 0;
  uint64_t records_ = 0, rounds_ = 0, dropped_ = 0, unnamed_ = 0;
};

}  // namespace gordian::server

#endif  // GORDIAN_ANALYZER_SERVER_GRAPH_EVENTS_H_
