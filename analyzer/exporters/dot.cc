// Writes who waited for whom at the end of the trace, for Graphviz.
#include "analyzer/exporters/formats.h"

namespace gordian::exporters {

StatusOr<Exported> WriteDot(const Job& job) {
  Exported exported;
  exported.files.emplace_back("", job.log.wait_for_dot());
  if (job.log.wait_for_dot().find("label") == std::string::npos)
    exported.notes.push_back("nothing waits for what cannot come: the graph is empty");
  return exported;
}

}  // namespace gordian::exporters
