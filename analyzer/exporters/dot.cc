// Writes who waited for whom at the end of the trace, for Graphviz and as GraphML.
#include "analyzer/exporters/formats.h"
#include "analyzer/model/waits/wait_drawing.h"
#include "common/utf8.h"

namespace gordian::exporters {
namespace {

// Arrows from a rank's own nodes to the end of what is shown with --rank.
constexpr int kHops = 2;

StatusOr<Exported> Write(const Job& job, std::string (*write)(const model::WaitDrawing&)) {
  model::WaitDrawing drawing = job.log.waits();
  Exported exported;
  if (drawing.nodes.empty())
    exported.notes.push_back("nothing waits for what cannot come: the graph is empty");
  const bool was_empty = drawing.nodes.empty();
  if (job.options.rank >= 0) {
    if (job.log.ranks().count(job.options.rank) == 0) {
      return Status::InvalidArgument(
          "the job has no rank " + std::to_string(job.options.rank) + ": its ranks are 0 to " +
          std::to_string(job.log.ranks().empty() ? 0 : job.log.ranks().rbegin()->first));
    }
    drawing = model::NeighboursOf(drawing, job.options.rank, kHops);
    if (drawing.nodes.empty() && !was_empty) {
      exported.notes.push_back("rank " + std::to_string(job.options.rank) +
                               " neither waits nor is waited for: the graph is empty");
    }
  }
  if (job.options.witness) {
    drawing = model::WitnessOf(drawing);
    if (drawing.nodes.empty() && !was_empty)
      exported.notes.push_back("no cycle is among the waits: the graph is empty");
  }
  exported.files.emplace_back("", CleanUtf8(write(drawing)));
  return exported;
}

}  // namespace

StatusOr<Exported> WriteDot(const Job& job) { return Write(job, model::DotOf); }
StatusOr<Exported> WriteGraphMl(const Job& job) { return Write(job, model::GraphMlOf); }

}  // namespace gordian::exporters
