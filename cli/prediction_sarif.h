// Predicted deadlocks for code scanners.
#ifndef GORDIAN_CLI_PREDICTION_SARIF_H_
#define GORDIAN_CLI_PREDICTION_SARIF_H_

#include <string>

#include "cli/known_predictions.h"
#include "common/status.h"
#include "replayer/predict/prediction.h"

namespace gordian::cli {

// Writes what is predicted as SARIF; nothing where `path` is empty, or where the run was not judged,
// since a file without results would say that there is nothing.
Status WriteSarif(const std::string& path, const replayer::Predictions& predictions,
                  const KnownPredictions& known);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_PREDICTION_SARIF_H_
