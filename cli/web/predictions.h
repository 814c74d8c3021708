// Predicts for the page: deadlocks that a recorded job did not meet.
#ifndef GORDIAN_CLI_WEB_PREDICTIONS_H_
#define GORDIAN_CLI_WEB_PREDICTIONS_H_

#include <string>

namespace gordian::cli {

// What `gordian predict PATH` finds in some seconds, as a JSON object; "": nothing, or it cannot
// judge the job, as one that hung.
std::string PredictionsJson(const std::string& path);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_WEB_PREDICTIONS_H_
