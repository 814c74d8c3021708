// Decides from a recorded trace, from its beginning to its end.
#include <sys/stat.h>

#include <utility>

#include "analyzer/fleet/fleet_notes.h"
#include "analyzer/ingest/graph_events.h"
#include "analyzer/report/status_json.h"
#include "analyzer/report/verdict_notes.h"
#include "analyzer/session/analysis.h"
#include "analyzer/session/session_files.h"
#include "analyzer/stacks/sign_book.h"
#include "analyzer/stacks/stack_book.h"
#include "common/clock.h"
#include "common/trace_file.h"

namespace gordian::analyzer {
namespace {

template <typename Function>
void ForEachSite(model::Verdict* verdict, Function function) {
  auto of = [&function](model::Finding* finding) {
    for (model::WaitEdge& edge : finding->cycle) function(&edge.site);
    for (model::StuckOperation& operation : finding->operations) {
      for (model::OperationMember& member : operation.members) function(&member.site);
    }
    for (model::FoundCommunicator& comm : finding->communicators) function(&comm.made_at);
  };
  of(&verdict->main);
  for (model::Finding& finding : verdict->findings) of(&finding);
}

SiteResolver TextsAt(std::vector<std::string> texts) {
  return [texts = std::move(texts)](const model::Site& site) {
    return site.address == 0 || site.address > texts.size() ? "" : texts[site.address - 1];
  };
}

}  // namespace

SiteResolver AnalysisResult::sites() const { return TextsAt(site_texts); }

StatusOr<AnalysisResult> AnalyzeTrace(const std::string& path, const AnalysisOptions& options,
                                      TraceSupplement* supplement) {
  AnalysisResult result;
  result.trace = path;
  struct stat about {};
  if (stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode)) {
    result.trace = path + "/" + kTraceFile;
  }
  StatusOr<std::unique_ptr<TraceReader>> reader = TraceReader::Open(result.trace);
  if (!reader.ok() && supplement == nullptr) return reader.status();
  if (reader.ok()) result.header = (*reader)->header();

  model::JobModel model(options.model);
  GraphEvents events(&model);
  FleetNotes fleet;
  StackBook stacks;
  SignBook signs;
  CallSites call_sites;
  TraceObserver* const observer = options.observer;
  events.Tell([](const model::ProcessInfo&) {},
              [&](const model::CallRecord& record) {
                signs.OnRecord(record);
                if (observer != nullptr) observer->OnRecord(model, record);
              });
  events.TellSites([&call_sites](uint32_t process, uint64_t site, const std::string& text) {
    call_sites.OnPythonSite(process, site, text);
  });
  bool job_ended = false;
  const auto feed = [&](const v1::Event& event) {
    job_ended |= event.has_job_ended();
    call_sites.OnEvent(event);
    stacks.OnEvent(event);
    signs.OnEvent(event);
    events.OnEvent(event);
    if (observer != nullptr) observer->OnEvent(model, event);
    ++result.events;
  };
  while (reader.ok()) {
    const v1::TraceChunk* const chunk = (*reader)->Next();
    if (chunk == nullptr) break;
    for (const v1::Event& event : chunk->events()) {
      if (supplement != nullptr) supplement->Seen(event);
      fleet.OnEvent(event);
      feed(event);
    }
  }
  if (reader.ok()) GORDIAN_RETURN_IF_ERROR((*reader)->bounds());
  result.ending = reader.ok() ? (*reader)->Describe() : "missing: " + reader.status().message();
  result.complete = reader.ok() && (*reader)->ending() == TraceReader::Ending::kComplete;
  if (!result.complete && supplement != nullptr) supplement->AddMissing(feed);
  result.dropped_events = events.dropped();
  if (observer != nullptr) observer->AtEnd(model, &call_sites);

  result.verdict = model.Current();
  NoteUnseen(fleet.Texts(), &result.verdict);
  NameNodes(fleet.Nodes(), result.header.host(), &result.verdict);
  NoteDropped(events.dropped(), &result.verdict);
  if (!result.complete && !options.still_written) {
    AddNotes({"events after the end of the trace, which is " + result.ending}, &result.verdict);
    // A problem seen so far remains; a healthy verdict says nothing about the missing rest.
    model::Finding& main = result.verdict.main;
    if (main.verdict == model::VerdictKind::kHealthy) {
      main.verdict = model::VerdictKind::kInconclusive;
      main.confidence = model::Confidence::kPossible;
      main.summary = "The trace is " + result.ending + "; up to there the job was healthy";
    }
  }
  signs.AddTo(model, &result.verdict);
  stacks.AddTo(model, &result.verdict);
  if (options.want_status) {
    StatusFacts facts;
    facts.verdict = result.verdict;
    facts.snapshot = model.Snapshot();
    facts.job_ended = job_ended;
    facts.now_ns = options.still_written ? MonoNs() : facts.snapshot.now_ns;
    facts.nodes = fleet.Nodes();
    facts.host = result.header.host();
    facts.sites = call_sites.Resolver();
    facts.symbol = [&events](uint16_t call) { return events.Symbol(call); };
    result.status_json = StatusToText(facts);
  }
  ForEachSite(&result.verdict, [&](model::Site* site) {
    if (site->address == 0) return;
    result.site_texts.push_back(call_sites.Describe(*site));
    *site = {.process = 0, .address = result.site_texts.size()};
  });
  return result;
}

}  // namespace gordian::analyzer
