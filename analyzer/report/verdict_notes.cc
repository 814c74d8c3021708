#include "analyzer/report/verdict_notes.h"

#include <fmt/format.h>

#include <map>

#include "analyzer/ingest/graph_events.h"
#include "analyzer/model/verdict/check_catalogue.h"

namespace gordian::analyzer {

void AddNotes(const std::vector<std::string>& notes, model::Verdict* verdict) {
  auto add = [&notes](model::Finding* finding) {
    std::vector<std::string>& to = finding->evidence.not_visible;
    to.insert(to.end(), notes.begin(), notes.end());
  };
  add(&verdict->main);
  for (model::Finding& finding : verdict->findings) add(&finding);
}

void NameNodes(const std::vector<NodeOfJob>& nodes, const std::string& host,
               model::Verdict* verdict) {
  std::map<uint32_t, std::string> names;
  for (const NodeOfJob& node : nodes) names[node.index] = node.name;
  auto name = [&](model::Finding* finding) {
    for (model::CulpritProcess& culprit : finding->culprit_processes) {
      const auto found = names.find(culprit.process / kProcessesOfNode);
      culprit.node = found == names.end() ? host : found->second;
    }
  };
  name(&verdict->main);
  for (model::Finding& finding : verdict->findings) name(&finding);
}

void NoteUnseen(const std::vector<std::string>& notes, model::Verdict* verdict) {
  if (notes.empty()) return;
  model::Finding& main = verdict->main;
  if (!model::SaysTrouble(main.verdict) && main.confidence == model::Confidence::kConfirmed) {
    main.confidence = model::Confidence::kSuspected;
  }
  AddNotes(notes, verdict);
}

void NoteDropped(uint64_t dropped, model::Verdict* verdict) {
  if (dropped == 0) return;
  NoteUnseen({fmt::format("{} malformed events, which the analyzer skipped", dropped)}, verdict);
}

}  // namespace gordian::analyzer
