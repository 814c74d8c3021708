// What an earlier search of a job's orders has found, so that only what is new counts in CI.
#ifndef GORDIAN_CLI_KNOWN_PREDICTIONS_H_
#define GORDIAN_CLI_KNOWN_PREDICTIONS_H_

#include <set>
#include <string>
#include <vector>

#include "common/status.h"
#include "replayer/predict/prediction.h"

namespace gordian::cli {

class KnownPredictions {
 public:
  // `path`: an output of `gordian predict --json` or `gordian explore --json`; empty: there is none.
  static StatusOr<KnownPredictions> Read(const std::string& path);

  bool given() const { return given_; }
  // One with the same call sites was found then.
  bool Has(const replayer::Prediction& prediction) const {
    return sites_.contains(prediction.sites);
  }
  bool HasAll(const std::vector<replayer::Prediction>& predictions) const;

 private:
  bool given_ = false;
  std::set<std::set<std::string>> sites_;
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_KNOWN_PREDICTIONS_H_
