// Events -> facts for the wait model. The only place where the one becomes the other.
//
// Events come from outside (a collector, a file): an enum out of range, an impossible size or
// number or an unknown process never reaches the model. GraphEvents drops and counts what it cannot
// check, record by record, and cuts what is merely too long.
//
// Which payload a record carries follows from its kind and from the symbol of its call, which a
// CallName tells: numbers of calls differ between versions.
#ifndef GORDIAN_ANALYZER_INGEST_GRAPH_EVENTS_H_
#define GORDIAN_ANALYZER_INGEST_GRAPH_EVENTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/model/verdict/job_model.h"
#include "gordian/v1/event.pb.h"
#include "proto/ring/record.h"

namespace gordian::analyzer {

// Process numbers are unique at one node. Those of a job: node k's start at k times this.
inline constexpr uint32_t kProcessesOfNode = 1u << 20;

// Not thread-safe.
// Times of nodes become times of the analyzer by the ClockOffset that stands before them.
class GraphEvents {
 public:
  // `model` must outlive this object.
  explicit GraphEvents(model::JobModel* model) : model_(model) {}

  // Translates one event and hands it to the model. Returns false when it, or a record of it, was
  // dropped.
  bool OnEvent(const v1::Event& event);

  // Calls these with each process and record too, right after the model took it.
  void Tell(std::function<void(const model::ProcessInfo&)> process,
            std::function<void(const model::CallRecord&)> record) {
    tell_process_ = std::move(process);
    tell_record_ = std::move(record);
  }
  // The same for rounds, before the model takes them.
  void TellRounds(std::function<void(const model::Round&)> round) {
    tell_round_ = std::move(round);
  }

  // The same for sites of Python code: process, number and text, as CallSites takes them.
  using SiteSink = std::function<void(uint32_t, uint64_t, const std::string&)>;
  void TellSites(SiteSink site) { tell_site_ = std::move(site); }

  // Symbol of a call number; empty when no CallName named it.
  const std::string& Symbol(uint32_t call) const;

  uint64_t records() const { return records_; }  // handed to the model
  uint64_t rounds() const { return rounds_; }
  uint64_t dropped() const { return dropped_; }  // events and records that made no sense
  uint64_t unnamed() const { return unnamed_; }  // records of calls that no CallName named

 private:
  struct NamedCall {
    std::string symbol;
    model::Call call = model::Call::kOther;
    ring::PayloadKind payload = ring::PayloadKind::kNone;  // of its kBegin and kPoint
  };

  bool OnCallName(const v1::CallName& name);
  bool OnClockOffset(const v1::ClockOffset& clock);
  bool OnRecovery(const v1::Recovery& recovery);
  void OnNodeState(const v1::NodeState& state);
  // A time of this process's node, in the analyzer's clock. 0 stays 0: none.
  uint64_t OurTime(uint32_t process, uint64_t time_ns) const;
  bool OnProcessStarted(const v1::ProcessStarted& started);
  bool OnProcessEnded(const v1::ProcessEnded& ended);
  bool TakeBlock(const v1::RecordBlock& block);
  bool TakeRecord(uint32_t process, const ring::Record& record);
  void TakePiece(uint32_t process, const ring::Record& record);
  bool TakeRound(const v1::Round& round);
  bool TranslateProcessState(const v1::ProcessState& state, model::ProcessState* out) const;
  bool Counted(bool understood) {
    if (!understood) ++dropped_;
    return understood;
  }
  model::Call Meaning(uint32_t call) const;

  model::JobModel* model_;
  std::function<void(const model::ProcessInfo&)> tell_process_;
  std::function<void(const model::CallRecord&)> tell_record_;
  std::function<void(const model::Round&)> tell_round_;
  SiteSink tell_site_;
  struct Pieces {
    uint64_t subject = 0;
    uint32_t next = 0;
    std::string text;
  };
  std::map<std::pair<uint32_t, uint32_t>, Pieces> pieces_;  // by process and thread
  std::vector<NamedCall> calls_;                            // by call number
  std::unordered_map<uint32_t, bool> processes_;            // known ones; true: alive
  std::unordered_map<uint32_t, int64_t> clocks_;            // by node; none: its clock is ours
  bool job_ended_ = false;
  uint64_t last_round_ = 0;
  uint64_t records_ = 0, rounds_ = 0, dropped_ = 0, unnamed_ = 0;
};

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_INGEST_GRAPH_EVENTS_H_
