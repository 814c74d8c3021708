// Analyzes one job: the wait model, the names and modules that its verdicts need, and the files of
// its session. The ingest service feeds it live, AnalyzeTrace from a trace.
//
//   trace.gtrace   every event, flushed every 100 ms and before each change of the verdict
//   verdict.json   replaced atomically at the first verdict, at every change and at the job's end
//   report.txt     the same for people
//
// Stacks of stuck threads follow the verdict, as a further revision of it.
//
// A session that cannot be written (read-only, full disk) loses its files only: the analysis
// continues, and the log and Evidence::not_visible each say so once.
#ifndef GORDIAN_ANALYZER_SESSION_ANALYSIS_H_
#define GORDIAN_ANALYZER_SESSION_ANALYSIS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/model/verdict/job_model.h"
#include "analyzer/stacks/call_sites.h"
#include "analyzer/stacks/source_book.h"
#include "common/owned_folder.h"
#include "common/status.h"
#include "gordian/v1/event.pb.h"
#include "gordian/v1/ingest.pb.h"
#include "gordian/v1/trace.pb.h"

namespace gordian::analyzer {

// The argument of a callback; its references are valid during the call only.
struct VerdictUpdate {
  const model::Verdict& verdict;
  const SiteResolver& sites;  // for report.h and verdict_json.h
  const std::string& json;    // the bytes of verdict.json
  uint64_t revision;          // from 1, grows with each change
  bool job_ended;
  // Of the processes that its problems are about, as JobModel::About: the names of their ring files,
  // which hold pid and start time.
  const std::vector<std::string>& rings;
  double seconds_to_verdict;  // from the last progress until verdict.json is in place; 0: unknown
  bool killed_by_gordian = false;  // the job has ended so, for a verdict
};

// Sees what the model of a trace sees, as it comes. All references are valid during the call only.
class TraceObserver {
 public:
  virtual ~TraceObserver() = default;
  // Right after the model took the record, or the event.
  virtual void OnRecord(const model::JobModel& model, const model::CallRecord& record) = 0;
  virtual void OnEvent(const model::JobModel& model, const v1::Event& event) = 0;
  // After the last event.
  virtual void AtEnd(const model::JobModel& model, CallSites* sites) = 0;
};

struct AnalysisOptions {
  std::string session_dir;  // must exist; empty: no files are written
  // That very folder, whatever its path leads to later; null: it is opened when the analysis begins.
  std::shared_ptr<const OwnedFolder> folder;
  bool write_trace = true;  // trace.gtrace in the session
  // Of AnalyzeTrace only: the job still runs, so a trace without an end is no fault.
  bool still_written = false;
  // Updates of the verdict that no round asks for (a process or node has gone, stacks have come) may
  // come so many at once that they take longer than the job's records: Tick makes up for those that
  // come within a few times of what the last one took.
  bool many_nodes = false;
  bool want_status = false;           // AnalysisResult::status_json
  TraceObserver* observer = nullptr;  // of AnalyzeTrace only; may be null
  model::ModelOptions model;
  // Called once per revision after verdict.json is in place, on the thread that fed the event,
  // without a lock: it may call any const method. Must not block for long.
  std::function<void(const VerdictUpdate&)> on_verdict;
  // Called before on_verdict, under the same rules, when a problem is decided for which no stacks
  // were requested. Events bring the answer. Empty: never request stacks.
  std::function<void(const v1::StacksRequest&)> on_stacks_wanted;
  // Called with each flush, when everything fed so far is in the trace (or never will be, because
  // the trace cannot be written): from any feeding thread and from Tick, under this object's lock.
  // Must be quick and call nothing here.
  std::function<void()> on_durable;
};

// Thread-safe: serialises its calls.
class Analysis {
 public:
  explicit Analysis(AnalysisOptions options);
  ~Analysis();
  Analysis(const Analysis&) = delete;
  Analysis& operator=(const Analysis&) = delete;

  // Sets the header of the trace to write. Call it before the first event; ignored later.
  void Begin(const v1::TraceHeader& header);

  // Takes one event. Rounds, and ends of processes and of the job, update the verdict.
  void OnEvent(const v1::Event& event);

  // Takes several events at once: the trace holds all of them or none, wherever it is cut.
  void OnBatch(const std::vector<v1::Event>& events);

  // Instead of Begin, before the first event: reads the session's trace as far as possible, as if
  // its events came now (passing each to `seen`, in order), and continues writing after it. Passes
  // on and writes no verdict meanwhile. Errors: as of TraceReader; the session is then unchanged
  // and this object unusable. Keeps a damaged trace as trace.gtrace.damaged, and continues after
  // its last whole chunk.
  Status Resume(const std::function<void(const v1::Event&)>& seen);

  // Flushes the trace now.
  void Flush();

  // Updates the verdict outside of rounds: a node has gone, and no collector is left to ask.
  void Update();

  // Flushes the trace, and updates the verdict, if that is due; call it about every 100 ms during
  // the job.
  void Tick();

  // Flushes the last time, decides the last verdict, and closes the trace. The destructor calls it
  // if the owner did not. Ignores later events.
  void Finish();

  // Adds to Evidence::not_visible what no event says: "the collector of node1 went away". Once
  // each.
  void AddNotVisible(const std::string& what);

  // Why no process can tell of its calls, for the verdict that none was seen: a cause that needs no
  // guess.
  void SetWhyNothingSeen(const std::string& why);

  // As JobModel's; false before the first process and after the job's end.
  bool HasUnfinished() const;
  bool WantsConfirmation() const;
  bool RuntimeTakesPart() const;  // as JobModel's

  // Stacks were requested and have not come yet.
  bool AwaitsStacks() const;

  // The verdict on everything known now.
  model::Verdict Current() const;
  // The bytes of verdict.json at the last change; "" before the first verdict.
  std::string CurrentJson(uint64_t* revision) const;
  // VerdictUpdate::rings of the present verdict.
  std::vector<std::string> CurrentRings() const;
  // The status at the same moment, as in status_json.h; `revision` as above, may be null.
  std::string StatusJson(uint64_t* revision) const;

  CallSites& call_sites();
  const SourceBook& sources() const;
  SiteResolver sites() const;

  struct Stats {
    uint64_t events = 0;
    uint64_t records = 0;
    uint64_t rounds = 0;
    uint64_t dropped_events = 0;  // malformed
    uint64_t revision = 0;
    uint64_t last_progress_ns = 0;  // monotonic; 0: none yet
    uint64_t trace_lost_events = 0;
    bool job_ended = false;
    bool killed_by_gordian = false;
    bool session_degraded = false;
    double seconds_to_verdict = 0;  // as in VerdictUpdate, of the latest revision that had one
  };
  Stats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Adds what a truncated trace lacks from another source: the session's ring files.
class TraceSupplement {
 public:
  virtual ~TraceSupplement() = default;
  // Every event of the trace, in its order.
  virtual void Seen(const v1::Event& event) = 0;
  // Called after them, unless the trace is complete: passes the missing events to `sink`.
  virtual void AddMissing(const std::function<void(const v1::Event&)>& sink) = 0;
};

struct AnalysisResult {
  model::Verdict verdict;
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
// session that holds one. Writes nothing, and ignores session_dir and on_verdict. Analyzes a
// truncated trace as far as it goes, and says so in the evidence. With a supplement, a missing or
// unreadable trace counts as an empty truncated one. Errors: as of TraceReader.
StatusOr<AnalysisResult> AnalyzeTrace(const std::string& path, const AnalysisOptions& options = {},
                                      TraceSupplement* supplement = nullptr);

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_SESSION_ANALYSIS_H_
