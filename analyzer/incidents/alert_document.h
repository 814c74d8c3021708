// What an alert says, and the shapes in which targets want it. Pure.
#ifndef GORDIAN_ANALYZER_INCIDENTS_ALERT_DOCUMENT_H_
#define GORDIAN_ANALYZER_INCIDENTS_ALERT_DOCUMENT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/incidents/alert_target.h"
#include "analyzer/incidents/incident.h"

namespace gordian::incidents {

inline constexpr char kAlertSchema[] = "gordian.alert.v1";

// The JSON object of an incident's alert. `session` and `page` as people type them; "": none.
std::string AlertDocument(const Incident& incident, const std::string& what,
                          const std::string& session, const std::string& page);

// One paragraph that says it all: "DEADLOCK (confirmed) in job train: ranks 2 and 3 wait for each
// other. Look first at rank 3 (pid 4711 on node7). Change: ..."
std::string AlertText(const Incident& incident, const std::string& what);

// The body of the request for such a document. `earlier`: documents of the same incident that the
// target has had, which Alertmanager must be told are over where they differ. `now_ns`:
// CLOCK_REALTIME. "": the document is none.
std::string AlertBody(AlertTarget::Kind kind, const std::string& document,
                      const std::vector<std::string>& earlier, uint64_t now_ns);

// The environment of an exec: target.
std::vector<std::pair<std::string, std::string>> AlertVariables(const std::string& document);

}  // namespace gordian::incidents

#endif  // GORDIAN_ANALYZER_INCIDENTS_ALERT_DOCUMENT_H_
