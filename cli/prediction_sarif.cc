#include "cli/prediction_sarif.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "analyzer/exporters/sarif_writer.h"
#include "cli/output_file.h"
#include "cli/predict_text.h"

namespace gordian::cli {
namespace {

using replayer::CallOrder;
using replayer::OpId;
using replayer::Prediction;

exporters::SarifPlace PlaceOf(const CallNames& names, OpId id, const std::string& text) {
  const replayer::Op& op = names.OpOf(id);
  return {op.site_file, op.site_line, text};
}

exporters::SarifFinding FindingOf(const Prediction& prediction) {
  const CallNames names(prediction);
  exporters::SarifFinding finding{
      .check = prediction.witness.origin.check,
      .title = "Another order of calls hangs",
      .message = "Hang predicted in another order of calls: " + SummaryText(prediction) + ".\n" +
                 PredictionText(prediction),
      .advice = TextOf(prediction.freedom).advice,
      .sites = prediction.sites};
  for (const OpId id : prediction.cycle) {
    const std::string rank = "rank " + std::to_string(names.RankOf(id));
    finding.places.push_back(PlaceOf(names, id, rank + " would wait in " + names.Describe(id)));
  }
  for (const CallOrder& order : prediction.orders) {
    if (order.as_recorded) continue;
    const std::string rank = "rank " + std::to_string(names.RankOf(order.first));
    finding.places.push_back(PlaceOf(
        names, order.second, rank + " calls " + names.Describe(order.second) + ", recorded first"));
  }
  return finding;
}

}  // namespace

Status WriteSarif(const std::string& path, const replayer::Predictions& predictions,
                  const KnownPredictions& known) {
  if (path.empty() || !predictions.judged) return Status::Ok();
  std::vector<exporters::SarifFinding> findings;
  for (const Prediction& prediction : predictions.predicted) {
    findings.push_back(FindingOf(prediction));
    if (known.given()) findings.back().known = known.Has(prediction);
  }
  std::error_code error;  // without the folder, files keep their whole paths
  return WriteOutput(path, exporters::SarifOf(findings, std::filesystem::current_path(error)));
}

}  // namespace gordian::cli
