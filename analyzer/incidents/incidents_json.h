// The incidents of a store as JSON (schema gordian.incidents.v1).
#ifndef GORDIAN_ANALYZER_INCIDENTS_INCIDENTS_JSON_H_
#define GORDIAN_ANALYZER_INCIDENTS_INCIDENTS_JSON_H_

#include <string>
#include <vector>

#include "analyzer/incidents/incident_store.h"

namespace gordian::incidents {

inline constexpr char kIncidentsSchema[] = "gordian.incidents.v1";

// On one line, without a newline at its end.
std::string IncidentsJson(const std::vector<IncidentRecord>& records);

}  // namespace gordian::incidents

#endif  // GORDIAN_ANALYZER_INCIDENTS_INCIDENTS_JSON_H_
