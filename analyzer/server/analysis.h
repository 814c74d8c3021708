// The analysis of one job: the wait model, the names and modules that its verdicts need, and the
// files of its session. Fed with events, live by the ingest service or from a trace.
//
//   trace.gtrace   every event, flushed every 100 ms and before each change of the verdict
//   verdict.json   replaced atomically at the first verdict, at every change and at the job's end
//   report.txt     the same for people
//
// Stacks of the threads that are stuck come after the verdict, as a further revision of it.
//
// A session that cannot be written (read-only, full disk) costs its files and nothing else: the
// analysis goes on, the log says it once and so does Evidence::not_visible.
#ifndef GORDIAN_ANALYZER_SERVER_ANALYSIS_H_
#define GORDIAN_ANALYZER_SERVER_ANALYSIS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/graph/job_model.h"
#include "analyzer/server/call_sites.h"
#include "analyzer/server/plain_events.h"
#include "common/status.h"
#include "gordian/v1/event.pb.h"
#include "gordian/v1/ingest.pb.h"
#include "gordian/v1/trace.pb.h"

namespace gordian::server {

// What a callback gets; valid during the call only, apart from copies.
struct VerdictUpdate {
  const graph::Verdict& verdict;
  const SiteResolver& sites;  // for report.h and verdict_json.h
  const std::string& json;    // the bytes of verdict.json
  uint64_t revision;          // from 1, grows with each change
  bool job_ended;
  double seconds_to_verdict;  // from the last progress to verdict.json's being in place; 0: n/a
};

struct AnalysisOptions {
  std::string session_dir;  // must exist; empty: no files are written
  bool write_trace = true;  // trace.gtrace in the session
  // Of AnalyzeTrace only. The job still runs: that its trace has no end yet says nothing.
  bool still_written = false;
  bool want_status = false;  // AnalysisResult::status_json
  graph::ModelOptions model;
  // Called after verdict.json is in place, once for each revision, from the thread that fed the
  // event, without a lock held: it may call any const method here. Must not block for long.
  std::function<void(const VerdictUpdate&)> on_verdict;
  // Called when a problem is decided upon that stacks were not asked for yet, before on_verdict and
  // under the same rules. Answered by events. Empty: stacks are never wanted.
  std::function<void(const v1::StacksRequest&)> on_stacks_wanted;
  // Called whenever all that was fed is in the trace (or will never be, because the trace cannot be
  // written): with each flush, from any feeding thread and from Tick, under the lock of this
  // object. Must be quick and call nothing here.
  std::function<void()> on_durable;
};

// What is fed at once: in the trace all of it or nothing, wherever it is cut.
struct Together {
  std::vector<v1::Event> before;
  // Of `chunk`, which may be null when there are none. Records are told of the processes that they
  // now name.
  const plain::Chunk* chunk = nullptr;
  std::vector<plain::Chunk::Event> events;
  std::vector<v1::Event> behind;
};

// Thread-safe: calls are serialised inside.
class Analysis {
 public:
  explicit Analysis(AnalysisOptions options);
  ~Analysis();
  Analysis(const Analysis&) = delete;
  Analysis& operator=(const Analysis&) = delete;

  // The header of the trace to be written; before the first event, else ignored.
  void Begin(const v1::TraceHeader& header);

  // One event. Rounds, and ends of processes and of the job, bring the verdict up to date.
  void OnEvent(const v1::Event& event);

  // Several events at once: in the trace all of them or none, wherever it is cut.
  void OnBatch(const std::vector<v1::Event>& events);
  void OnBatch(const Together& together);

  // Instead of Begin: reads the trace that the session holds, as far as it can be read, as if its
  // events came now (`seen` gets each, in order), and goes on writing behind it. No verdict is told
  // or written meanwhile. Before the first event. Errors: as of TraceReader; then the session is as
  // it was, and this object of no use. A damaged trace is kept as trace.gtrace.damaged, and goes on
  // behind its last whole chunk.
  Status Resume(const std::function<void(const v1::Event&)>& seen);

  // Flushes the trace now.
  void Flush();

  // Brings the verdict up to date outside of rounds: a node has gone, and nobody is left to ask.
  void Update();

  // Flushes the trace if that is due; call it every 100 ms or so while the job lives.
  void Tick();

  // The last flush and the last verdict; the trace is closed in order. Called by the destructor if
  // by nobody else. Events afterwards are ignored.
  void Finish();

  // What no event says, for Evidence::not_visible: "the collector of node1 went away". Once each.
  void AddNotVisible(const std::string& what);

  // As JobModel's; also false before the first process and after the job's end.
  bool HasUnfinished() const;
  bool WantsConfirmation() const;

  // Stacks were wanted and have not come yet.
  bool AwaitsStacks() const;

  // From all that is known now.
  graph::Verdict Current() const;
  // The bytes of verdict.json at the last change; "" before the first verdict.
  std::string CurrentJson(uint64_t* revision) const;
  // The same moment as JSON of status_json.h; `revision` as above, may be null.
  std::string StatusJson(uint64_t* revision) const;

  CallSites& call_sites();
  SiteResolver sites() const;

  struct Stats {
    uint64_t events = 0;
    uint64_t records = 0;
    uint64_t rounds = 0;
    uint64_t dropped_events = 0;  // made no sense
    uint64_t revision = 0;
    uint64_t trace_lost_events = 0;
    bool job_ended = false;
    bool session_degraded = false;
    double seconds_to_verdict = 0;  // as in VerdictUpdate, of the latest revision that had one
  };
  Stats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// What a trace that was cut off lacks, from elsewhere: the session's ring files.
class TraceSupplement {
 public:
  virtual ~TraceSupplement() = default;
  // Every event of the trace, in its order.
  virtual void Seen(const v1::Event& event) = 0;
  // Then, unless the trace was closed in order: whatever it does not have.
  virtual void AddMissing(const std::function<void(const v1::Event&)>& sink) = 0;
};

struct AnalysisResult {
  graph::Verdict verdict;
  std::vector<std::string>
      site_texts;  // of the sites in `verdict`: Site::address is a place here + 1
  v1::TraceHeader header;
  std::string status_json;  // as Analysis::StatusJson, at the end of the trace
  std::string trace;        // which file was read
  std::string ending;       // TraceReader::Describe
  bool complete = true;
  uint64_t events = 0;
  uint64_t dropped_events = 0;

  SiteResolver sites() const;
};

// Replays a .gtrace and decides, as `gordian analyze` and `explain` do. `path` is the file or a
// session that holds one. Writes nothing: session_dir and on_verdict of the options are not used.
// A cut trace is analysed as far as it goes, and the evidence says so. With a supplement a trace
// that is missing or cannot be read counts as one that was cut at once. Errors: as of TraceReader.
StatusOr<AnalysisResult> AnalyzeTrace(const std::string& path, const AnalysisOptions& options = {},
                                      TraceSupplement* supplement = nullptr);

}  // namespace gordian::server

#endif  // GORDIAN_ANALYZER_SERVER_ANALYSIS_H_
