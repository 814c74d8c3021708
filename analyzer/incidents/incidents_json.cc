#include "analyzer/incidents/incidents_json.h"

#include <nlohmann/json.hpp>

#include "common/clock.h"
#include "common/version.h"

namespace gordian::incidents {
namespace {

using nlohmann::ordered_json;

std::string Time(uint64_t real_ns) { return real_ns == 0 ? "" : FormatUtc(real_ns); }

ordered_json OneJson(const IncidentRecord& record) {
  const Incident& incident = record.incident;
  const Facts& facts = incident.facts;
  ordered_json culprits = ordered_json::array(), revisions = ordered_json::array(),
               acknowledgements = ordered_json::array(), alerts = ordered_json::array();
  for (const Culprit& one : facts.culprits) {
    culprits.push_back({{"rank", one.rank}, {"pid", one.pid}, {"node", one.node}});
  }
  for (const Revision& one : record.revisions) {
    revisions.push_back({{"revision", one.revision},
                         {"time", Time(one.time_ns)},
                         {"confidence", one.confidence},
                         {"verdict", one.verdict},
                         {"check", one.check},
                         {"summary", one.summary}});
  }
  for (const Acknowledgement& one : record.acknowledgements) {
    acknowledgements.push_back({{"time", Time(one.time_ns)}, {"who", one.who}, {"note", one.note}});
  }
  for (const Alert& one : record.alerts) {
    alerts.push_back({{"alert", one.what},
                      {"target", one.shown},
                      {"time", Time(one.queued_ns)},
                      {"state", one.state}});
  }
  return {{"id", incident.id},
          {"job", incident.job},
          {"session", incident.session},
          {"nodes", record.nodes},
          {"open", incident.ended_ns == 0},
          {"opened", Time(incident.opened_ns)},
          {"confirmed", Time(incident.confirmed_ns)},
          {"ended", Time(incident.ended_ns)},
          {"how_ended", incident.how_ended},
          {"verdict", facts.verdict},
          {"confidence", facts.confidence},
          {"check", facts.check},
          {"summary", facts.summary},
          {"advice", facts.advice},
          {"culprits", std::move(culprits)},
          {"victims", facts.victims},
          {"revisions", std::move(revisions)},
          {"acknowledgements", std::move(acknowledgements)},
          {"alerts", std::move(alerts)}};
}

}  // namespace

std::string IncidentsJson(const std::vector<IncidentRecord>& records) {
  ordered_json list = ordered_json::array();
  for (const IncidentRecord& record : records) list.push_back(OneJson(record));
  const ordered_json json = {
      {"schema", kIncidentsSchema}, {"gordian_version", kVersion}, {"incidents", std::move(list)}};
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace gordian::incidents
