// A recorded trace, decided upon from its beginning to its end.
#include <google/protobuf/arena.h>
#include <sys/stat.h>

#include <utility>

#include "analyzer/server/analysis.h"
#include "analyzer/server/fleet_notes.h"
#include "analyzer/server/graph_events.h"
#include "analyzer/server/plain_events.h"
#include "analyzer/server/session_files.h"
#include "analyzer/server/sign_book.h"
#include "analyzer/server/stack_book.h"
#include "analyzer/server/status_json.h"
#include "analyzer/server/verdict_notes.h"
#include "common/clock.h"
#include "common/trace_file.h"

namespace gordian::server {
namespace {

template <typename Function>
void ForEachSite(graph::Verdict* verdict, Function function) {
  auto of = [&function](graph::Finding* finding) {
    for (graph::WaitEdge& edge : finding->cycle) function(&edge.site);
    for (graph::StuckOperation& operation : finding->operations) {
      for (graph::OperationMember& member : operation.members) function(&member.site);
    }
  };
  of(&verdict->main);
  for (graph::Finding& finding : verdict->findings) of(&finding);
}

SiteResolver TextsAt(std::vector<std::string> texts) {
  return [texts = std::move(texts)](const graph::Site& site) {
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

  graph::JobModel model(options.model);
  GraphEvents events(&model);
  FleetNotes fleet;
  StackBook stacks;
  SignBook signs;
  CallSites call_sites;
  google::protobuf::Arena arena;  // thousands of small messages, all gone with their chunk
  bool job_ended = false;
  const auto feed = [&](const v1::Event& event) {
    job_ended |= event.has_job_ended();
    if (event.event_case() == v1::Event::kModule) call_sites.OnModule(event.module());
    stacks.OnEvent(event);
    signs.OnEvent(event);
    events.OnEvent(event);
    ++result.events;
  };
  const auto whole = [&](const v1::Event& event) {
    fleet.OnEvent(event);
    feed(event);
  };
  // Whoever has to see each event gets protobuf's.
  while (reader.ok() && supplement != nullptr) {
    arena.Reset();
    auto* chunk = google::protobuf::Arena::CreateMessage<v1::TraceChunk>(&arena);
    if (!(*reader)->Next(chunk)) break;
    for (const v1::Event& event : chunk->events()) {
      supplement->Seen(event);
      whole(event);
    }
  }
  plain::Chunk chunk;
  const auto take = [&](std::string_view contents, TraceReader::Contents* what) {
    if (!chunk.Read(contents)) return false;
    what->events = chunk.events().size();
    what->last = chunk.last();
    for (const plain::Chunk::Event& event : chunk.events()) {
      switch (event.kind) {
        case plain::Chunk::Kind::kRecord:
          signs.OnRecord(chunk.record(event));
          events.OnRecord(chunk.record(event));
          ++result.events;
          break;
        case plain::Chunk::Kind::kRound:
          events.OnRound(chunk.round(event));
          ++result.events;
          break;
        case plain::Chunk::Kind::kOther:
          whole(chunk.other(event));
          break;
      }
    }
    return true;
  };
  while (reader.ok() && supplement == nullptr && (*reader)->Next(take)) {
  }
  result.ending = reader.ok() ? (*reader)->Describe() : "missing: " + reader.status().message();
  result.complete = reader.ok() && (*reader)->ending() == TraceReader::Ending::kComplete;
  if (!result.complete && supplement != nullptr) supplement->AddMissing(feed);
  result.dropped_events = events.dropped();

  result.verdict = model.Current();
  AddNotes(fleet.Texts(), &result.verdict);
  NoteDropped(events.dropped(), &result.verdict);
  if (!result.complete && !options.still_written) {
    AddNotes({"what came after the end of the trace, which is " + result.ending}, &result.verdict);
    // A problem that was seen stays one; that none was seen says nothing about the missing rest.
    graph::Finding& main = result.verdict.main;
    if (main.verdict == graph::VerdictKind::kHealthy) {
      main.verdict = graph::VerdictKind::kInconclusive;
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
  ForEachSite(&result.verdict, [&](graph::Site* site) {
    if (site->address == 0) return;
    result.site_texts.push_back(call_sites.Describe(*site));
    *site = {.process = 0, .address = result.site_texts.size()};
  });
  return result;
}

}  // namespace gordian::server
